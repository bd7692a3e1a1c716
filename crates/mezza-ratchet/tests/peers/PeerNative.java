// One device of libsignal-client 0.86.5 (PQXDH) behind the line protocol of
// docs/protocols/ratchet.md, section "Interoperability". Run as a program of its own, never linked:
//   java -cp libsignal-client-0.86.5.jar:kotlin-stdlib-2.1.0.jar PeerNative.java

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import java.util.concurrent.ThreadLocalRandom;
import org.signal.libsignal.protocol.*;
import org.signal.libsignal.protocol.ecc.ECKeyPair;
import org.signal.libsignal.protocol.ecc.ECPublicKey;
import org.signal.libsignal.protocol.fingerprint.NumericFingerprintGenerator;
import org.signal.libsignal.protocol.kem.KEMKeyPair;
import org.signal.libsignal.protocol.kem.KEMKeyType;
import org.signal.libsignal.protocol.kem.KEMPublicKey;
import org.signal.libsignal.protocol.message.*;
import org.signal.libsignal.protocol.state.*;
import org.signal.libsignal.protocol.state.impl.InMemorySignalProtocolStore;
import org.signal.libsignal.protocol.util.KeyHelper;

public final class PeerNative {
    private static final SignalProtocolAddress PEER = new SignalProtocolAddress("peer", 1);

    public static void main(String[] args) throws Exception {
        Device device = new Device();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                if (words[0].equals("bundle")) device = new Device();
                answer = "ok" + answer(device, words);
            } catch (Exception | AssertionError e) {
                answer = ("err " + e.getClass().getSimpleName() + ": " + e.getMessage()).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static String answer(Device device, String[] w) throws Exception {
        switch (w[0]) {
            case "bundle": return text(device.publish());
            case "process": new SessionBuilder(device.store, PEER).process(bundle(w)); return "";
            case "enc": {
                CiphertextMessage message = new SessionCipher(device.store, PEER).encrypt(unhex(w[1]));
                return " " + message.getType() + " " + hex(message.serialize());
            }
            case "dec": return " " + hex(device.decrypt(Integer.parseInt(w[1]), unhex(w[2])));
            case "number": {
                var number = new NumericFingerprintGenerator(5200).createFor(2, unhex(w[1]),
                        device.identity.getPublicKey(), unhex(w[2]), new IdentityKey(unhex(w[3])));
                return " " + number.getDisplayableFingerprint().getDisplayText()
                        + " " + hex(number.getScannableFingerprint().getSerialized());
            }
            case "sign": return " " + hex(device.sign(unhex(w[1])));
            case "verify":
                return new ECPublicKey(unhex(w[1])).verifySignature(unhex(w[2]), unhex(w[3])) ? " 1" : " 0";
            default: throw new IllegalArgumentException("no word " + w[0]);
        }
    }

    private static String text(PreKeyBundle b) throws Exception {
        return " " + b.getRegistrationId() + " " + b.getPreKeyId() + " " + hex(b.getPreKey().serialize())
                + " " + b.getSignedPreKeyId() + " " + hex(b.getSignedPreKey().serialize())
                + " " + hex(b.getSignedPreKeySignature()) + " " + hex(b.getIdentityKey().serialize())
                + " " + b.getKyberPreKeyId() + " " + hex(b.getKyberPreKey().serialize())
                + " " + hex(b.getKyberPreKeySignature());
    }

    private static PreKeyBundle bundle(String[] w) throws Exception {
        boolean oneTime = !w[3].equals("-");
        return new PreKeyBundle(Integer.parseInt(w[1]), 1,
                oneTime ? Integer.parseInt(w[2]) : PreKeyBundle.NULL_PRE_KEY_ID,
                oneTime ? new ECPublicKey(unhex(w[3])) : null,
                Integer.parseInt(w[4]), new ECPublicKey(unhex(w[5])), unhex(w[6]), new IdentityKey(unhex(w[7])),
                Integer.parseInt(w[8]), new KEMPublicKey(unhex(w[9])), unhex(w[10]));
    }

    private static String hex(byte[] bytes) { return HexFormat.of().formatHex(bytes); }
    private static byte[] unhex(String text) { return HexFormat.of().parseHex(text); }

    /** A device with one contact. */
    private static final class Device {
        final IdentityKeyPair identity = IdentityKeyPair.generate();
        final SignalProtocolStore store =
                new InMemorySignalProtocolStore(identity, KeyHelper.generateRegistrationId(false));

        byte[] sign(byte[] message) { return identity.getPrivateKey().calculateSignature(message); }

        PreKeyBundle publish() throws Exception {
            long now = System.currentTimeMillis();
            ECKeyPair oneTime = ECKeyPair.generate(), signed = ECKeyPair.generate();
            KEMKeyPair kem = KEMKeyPair.generate(KEMKeyType.KYBER_1024);
            byte[] signature = sign(signed.getPublicKey().serialize());
            byte[] kemSignature = sign(kem.getPublicKey().serialize());
            int[] ids = ThreadLocalRandom.current().ints(3, 1, 0xffffff).toArray();
            store.storePreKey(ids[0], new PreKeyRecord(ids[0], oneTime));
            store.storeSignedPreKey(ids[1], new SignedPreKeyRecord(ids[1], now, signed, signature));
            store.storeKyberPreKey(ids[2], new KyberPreKeyRecord(ids[2], now, kem, kemSignature));
            return new PreKeyBundle(store.getLocalRegistrationId(), 1, ids[0], oneTime.getPublicKey(),
                    ids[1], signed.getPublicKey(), signature, identity.getPublicKey(),
                    ids[2], kem.getPublicKey(), kemSignature);
        }

        byte[] decrypt(int type, byte[] message) throws Exception {
            SessionCipher cipher = new SessionCipher(store, PEER);
            return type == CiphertextMessage.PREKEY_TYPE
                    ? cipher.decrypt(new PreKeySignalMessage(message))
                    : cipher.decrypt(new SignalMessage(message));
        }
    }
}

// One device of signal-protocol-java 2.8.1 behind the line protocol of docs/protocols/ratchet.md,
// section "Interoperability". Run as a program of its own, never linked:
//   java -cp signal-protocol-java-2.8.1.jar:curve25519-java-0.5.0.jar:protobuf-javalite-3.10.0.jar PeerJava.java

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.HexFormat;
import org.whispersystems.libsignal.*;
import org.whispersystems.libsignal.ecc.Curve;
import org.whispersystems.libsignal.ecc.ECPublicKey;
import org.whispersystems.libsignal.fingerprint.NumericFingerprintGenerator;
import org.whispersystems.libsignal.protocol.*;
import org.whispersystems.libsignal.state.*;
import org.whispersystems.libsignal.state.impl.InMemorySignalProtocolStore;
import org.whispersystems.libsignal.util.KeyHelper;

public final class PeerJava {
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
            case "process": device.process(bundle(w)); return "";
            case "enc": {
                CiphertextMessage message = device.encrypt(unhex(w[1]));
                return " " + message.getType() + " " + hex(message.serialize());
            }
            case "dec": return " " + hex(device.decrypt(Integer.parseInt(w[1]), unhex(w[2])));
            case "number": {
                var number = new NumericFingerprintGenerator(5200).createFor(2, unhex(w[1]),
                        device.identity.getPublicKey(), unhex(w[2]), new IdentityKey(unhex(w[3]), 0));
                return " " + number.getDisplayableFingerprint().getDisplayText()
                        + " " + hex(number.getScannableFingerprint().getSerialized());
            }
            case "sign": return " " + hex(Curve.calculateSignature(device.identity.getPrivateKey(), unhex(w[1])));
            case "verify": return Curve.verifySignature(point(w[1]), unhex(w[2]), unhex(w[3])) ? " 1" : " 0";
            case "rate": return Rate.of(w[1], Integer.parseInt(w[2]), Integer.parseInt(w[3]));
            default: throw new IllegalArgumentException("no word " + w[0]);
        }
    }

    private static String text(PreKeyBundle b) {
        return " " + b.getRegistrationId() + " " + b.getPreKeyId() + " " + hex(b.getPreKey().serialize())
                + " " + b.getSignedPreKeyId() + " " + hex(b.getSignedPreKey().serialize())
                + " " + hex(b.getSignedPreKeySignature()) + " " + hex(b.getIdentityKey().serialize());
    }

    private static PreKeyBundle bundle(String[] w) throws Exception {
        ECPublicKey oneTime = w[3].equals("-") ? null : point(w[3]);
        return new PreKeyBundle(Integer.parseInt(w[1]), 1, Integer.parseInt(w[2]), oneTime,
                Integer.parseInt(w[4]), point(w[5]), unhex(w[6]), new IdentityKey(unhex(w[7]), 0));
    }

    /** 1 to 16,777,214. */
    private static int freshId() { return 1 + KeyHelper.getRandomSequence(0xfffffe); }
    private static ECPublicKey point(String text) throws Exception { return Curve.decodePoint(unhex(text), 0); }
    private static String hex(byte[] bytes) { return HexFormat.of().formatHex(bytes); }
    private static byte[] unhex(String text) { return HexFormat.of().parseHex(text); }

    /** A device with one contact. */
    private static final class Device {
        final IdentityKeyPair identity = KeyHelper.generateIdentityKeyPair();
        final SignalProtocolStore store =
                new InMemorySignalProtocolStore(identity, KeyHelper.generateRegistrationId(false));

        PreKeyBundle publish() throws Exception {
            PreKeyRecord oneTime = KeyHelper.generatePreKeys(freshId(), 1).get(0);
            SignedPreKeyRecord signed = KeyHelper.generateSignedPreKey(identity, freshId());
            store.storePreKey(oneTime.getId(), oneTime);
            store.storeSignedPreKey(signed.getId(), signed);
            return new PreKeyBundle(store.getLocalRegistrationId(), 1, oneTime.getId(),
                    oneTime.getKeyPair().getPublicKey(), signed.getId(), signed.getKeyPair().getPublicKey(),
                    signed.getSignature(), identity.getPublicKey());
        }

        void process(PreKeyBundle bundle) throws Exception { new SessionBuilder(store, PEER).process(bundle); }

        CiphertextMessage encrypt(byte[] body) throws Exception {
            return new SessionCipher(store, PEER).encrypt(body);
        }

        byte[] decrypt(int type, byte[] message) throws Exception {
            SessionCipher cipher = new SessionCipher(store, PEER);
            return type == CiphertextMessage.PREKEY_TYPE
                    ? cipher.decrypt(new PreKeySignalMessage(message))
                    : cipher.decrypt(new SignalMessage(message));
        }

        byte[] decrypt(CiphertextMessage message) throws Exception {
            return decrypt(message.getType(), message.serialize());
        }
    }

    /** Thread CPU time of a call, after a warm-up: the minimum and the median of 25 batches. */
    private static final class Rate {
        private static final int WARM_UP = 5;
        private static final int BATCHES = 25;

        static String of(String op, int size, int calls) throws Exception {
            double[] each = new double[BATCHES];
            for (int i = -WARM_UP; i < BATCHES; i++) {
                long time = batch(op, new byte[size], calls);
                if (i >= 0) each[i] = (double) time / calls;
            }
            Arrays.sort(each);
            return " " + Math.round(each[0]) + " " + Math.round(each[BATCHES / 2]);
        }

        private static long batch(String op, byte[] body, int calls) throws Exception {
            if (op.equals("bundle")) {
                Device device = new Device();
                return time(calls, i -> device.publish());
            }
            Device[] near = new Device[calls], far = new Device[calls];
            PreKeyBundle[] bundles = new PreKeyBundle[calls];
            CiphertextMessage[] made = new CiphertextMessage[calls];
            boolean handshake = op.equals("init") || op.equals("resp");
            for (int i = 0; i < (handshake ? calls : 1); i++) {
                near[i] = new Device();
                far[i] = new Device();
                bundles[i] = far[i].publish();
            }
            Each init = i -> { near[i].process(bundles[i]); made[i] = near[i].encrypt(body); };
            Each seal = i -> made[i] = near[0].encrypt(body);
            if (handshake) {
                long time = time(calls, init);
                return op.equals("init") ? time : time(calls, i -> far[i].decrypt(made[i]));
            }
            init.call(0);
            far[0].decrypt(made[0]);
            near[0].decrypt(far[0].encrypt(body));
            switch (op) {
                case "seal": return time(calls, seal);
                case "open": time(calls, seal); return time(calls, i -> far[0].decrypt(made[i]));
                case "turn": return time(calls, i -> {
                    Device from = i % 2 == 0 ? near[0] : far[0], to = i % 2 == 0 ? far[0] : near[0];
                    to.decrypt(from.encrypt(body));
                });
                default: throw new IllegalArgumentException("no operation " + op);
            }
        }

        private interface Each { void call(int i) throws Exception; }

        private static long time(int calls, Each each) throws Exception {
            var clock = ManagementFactory.getThreadMXBean();
            long begun = clock.getCurrentThreadCpuTime();
            for (int i = 0; i < calls; i++) each.call(i);
            return clock.getCurrentThreadCpuTime() - begun;
        }
    }
}

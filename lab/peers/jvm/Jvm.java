// Primitives of a JVM behind the line protocol of the lab: `jdk` is what the JDK brings, `bc` is
// BouncyCastle. It measures as crates/mezza-lab/measuring/src/rate.rs does.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.security.MessageDigest;
import java.security.Provider;
import java.security.Security;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

public final class Jvm {
    private static final int WARM_UP = 5, BATCHES = 25, COLD_CALLS = 10;
    /** A JVM is warm after about this many nanoseconds of work. */
    private static final long WARM_NS = 1_500_000_000L;
    private static final byte[] AAD = new byte[66];
    private static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();
    private static final Set<String> WARMED = new HashSet<>();
    private static int nonce;
    private static byte sink;

    private interface Call { void run(int i) throws Exception; }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = "ok " + answer(line.split(" "));
            } catch (Exception e) {
                answer = ("err " + e).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static String answer(String[] w) throws Exception {
        switch (w[0]) {
            case "version": return System.getProperty("java.runtime.version");
            case "rate": return rate(w[1], Integer.parseInt(w[2]), Integer.parseInt(w[3]));
            case "cold": return cold(w[1], Integer.parseInt(w[2]));
            default: throw new IllegalArgumentException("not understood: " + w[0]);
        }
    }

    private static String rate(String op, int size, int calls) throws Exception {
        if (WARMED.add(op + " " + size)) {
            for (long spent = 0; spent < WARM_NS; ) spent += batch(op, size, calls);
        }
        double[] each = new double[BATCHES];
        for (int i = -WARM_UP; i < BATCHES; i++) {
            double ns = (double) batch(op, size, calls) / calls;
            if (i >= 0) each[i] = ns;
        }
        Arrays.sort(each);
        return each[0] + " " + each[BATCHES / 2];
    }

    private static long batch(String op, int size, int calls) throws Exception {
        Call call = prepare(op, size, calls);
        long begun = CLOCK.getCurrentThreadCpuTime();
        for (int i = 0; i < calls; i++) call.run(i);
        return Math.max(1, CLOCK.getCurrentThreadCpuTime() - begun);
    }

    private static String cold(String op, int size) throws Exception {
        Call call = prepare(op, size, COLD_CALLS);
        long[] each = new long[COLD_CALLS];
        for (int i = 0; i < COLD_CALLS; i++) {
            long begun = CLOCK.getCurrentThreadCpuTime();
            call.run(i);
            each[i] = CLOCK.getCurrentThreadCpuTime() - begun;
        }
        long sum = Arrays.stream(each).sum();
        return each[0] + " " + sum / COLD_CALLS + " " + (sum - each[0]) / (COLD_CALLS - 1);
    }

    private static Call prepare(String name, int size, int calls) throws Exception {
        String[] w = name.split(":");
        String provider = w[0].equals("bc") ? bouncyCastle() : null;
        byte[] text = new byte[size];
        switch (w[1]) {
            case "sha512": return hash("SHA-512", provider, text);
            case "blake2b":
                if (provider == null) throw new IllegalArgumentException("jdk has no blake2b");
                return hash("BLAKE2B-512", provider, text);
            case "chacha-seal": return i -> keep(aead("ChaCha20-Poly1305", provider, text, null));
            case "gcm-seal": return i -> keep(aead("AES/GCM/NoPadding", provider, text, null));
            case "cbc-hmac-seal": return i -> keep(cbcSeal(provider, text));
            default: return open(w[1], provider, text, calls);
        }
    }

    private static Call open(String op, String provider, byte[] text, int calls) throws Exception {
        byte[][] sealed = new byte[calls][];
        int first = nonce;
        for (int i = 0; i < calls; i++) {
            switch (op) {
                case "chacha-open": sealed[i] = aead("ChaCha20-Poly1305", provider, text, null); break;
                case "gcm-open": sealed[i] = aead("AES/GCM/NoPadding", provider, text, null); break;
                case "cbc-hmac-open": sealed[i] = cbcSeal(provider, text); break;
                default: throw new IllegalArgumentException("no operation " + op);
            }
        }
        if (op.equals("cbc-hmac-open")) return i -> keep(cbcOpen(provider, sealed[i]));
        String kind = op.equals("gcm-open") ? "AES/GCM/NoPadding" : "ChaCha20-Poly1305";
        return i -> { nonce = first + i; keep(aead(kind, provider, text, sealed[i])); };
    }

    private static Call hash(String kind, String provider, byte[] text) {
        return i -> keep((provider == null
                ? MessageDigest.getInstance(kind) : MessageDigest.getInstance(kind, provider)).digest(text));
    }

    /** Seals `text`, or opens `sealed`; a JVM refuses a nonce twice under one key. */
    private static byte[] aead(String kind, String provider, byte[] text, byte[] sealed) throws Exception {
        boolean gcm = kind.startsWith("AES");
        byte[] iv = new byte[12];
        int n = ++nonce;
        for (int i = 0; i < 4; i++) iv[i] = (byte) (n >> 8 * i);
        Cipher cipher = cipher(kind, provider);
        int mode = sealed == null ? Cipher.ENCRYPT_MODE : Cipher.DECRYPT_MODE;
        cipher.init(mode, new SecretKeySpec(new byte[32], gcm ? "AES" : "ChaCha20"),
                gcm ? new GCMParameterSpec(128, iv) : new IvParameterSpec(iv));
        cipher.updateAAD(AAD);
        return cipher.doFinal(sealed == null ? text : sealed);
    }

    private static byte[] cbcSeal(String provider, byte[] text) throws Exception {
        Cipher cipher = cipher("AES/CBC/PKCS5Padding", provider);
        cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(new byte[32], "AES"), new IvParameterSpec(new byte[16]));
        byte[] sealed = cipher.doFinal(text);
        byte[] mac = mac(provider, sealed, sealed.length);
        byte[] out = Arrays.copyOf(sealed, sealed.length + 8);
        System.arraycopy(mac, 0, out, sealed.length, 8);
        return out;
    }

    private static byte[] cbcOpen(String provider, byte[] sealed) throws Exception {
        int end = sealed.length - 8;
        byte[] mac = Arrays.copyOf(mac(provider, sealed, end), 8);
        if (!MessageDigest.isEqual(mac, Arrays.copyOfRange(sealed, end, sealed.length))) {
            throw new IllegalStateException("not authentic");
        }
        Cipher cipher = cipher("AES/CBC/PKCS5Padding", provider);
        cipher.init(Cipher.DECRYPT_MODE, new SecretKeySpec(new byte[32], "AES"), new IvParameterSpec(new byte[16]));
        return cipher.doFinal(sealed, 0, end);
    }

    private static byte[] mac(String provider, byte[] sealed, int length) throws Exception {
        Mac mac = provider == null ? Mac.getInstance("HmacSHA256") : Mac.getInstance("HmacSHA256", provider);
        mac.init(new SecretKeySpec(new byte[32], "HmacSHA256"));
        mac.update(AAD);
        mac.update(sealed, 0, length);
        return mac.doFinal();
    }

    private static Cipher cipher(String kind, String provider) throws Exception {
        return provider == null ? Cipher.getInstance(kind) : Cipher.getInstance(kind, provider);
    }

    private static String bouncyCastle() throws Exception {
        if (Security.getProvider("BC") == null) {
            Class<?> found = Class.forName("org.bouncycastle.jce.provider.BouncyCastleProvider");
            Security.addProvider((Provider) found.getDeclaredConstructor().newInstance());
        }
        return "BC";
    }

    private static void keep(byte[] bytes) { sink ^= bytes[0]; }
}

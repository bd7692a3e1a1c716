#!/bin/sh
# The JDK's own providers (GPL-2.0 with classpath exception), and BouncyCastle 1.80 (MIT, Maven
# Central, 8 MB) once it was fetched. `run --plain` switches the JVM's intrinsics off.
. "$(dirname "$0")/peer.sh"
needs_jdk
case $action in
    version)
        bc="without BouncyCastle ($fetch_with)"
        [ -f "$peers/bcprov-jdk18on-1.80.jar" ] && bc="BouncyCastle 1.80"
        echo "$(javac -version), $bc"
        ;;
    fetch)
        mkdir -p "$peers"
        jar org.bouncycastle:bcprov-jdk18on:1.80 e8ad209f8c58d291a37ca9750e9e9fac60596956c983e49dd8282381dd8b3249
        ;;
    run)
        plain=
        if [ "${2:-}" = --plain ]; then
            plain="-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-UseAES \
                -XX:-UseAESIntrinsics -XX:-UseSHA -XX:-UseSHA512Intrinsics -XX:-UseSHA256Intrinsics \
                -XX:-UseChaCha20Intrinsics -XX:-UsePoly1305Intrinsics"
        fi
        mkdir -p "$peers/jvm"
        [ "$peers/jvm/Jvm.class" -nt "$here/jvm/Jvm.java" ] || javac -d "$peers/jvm" "$here/jvm/Jvm.java"
        # shellcheck disable=SC2086
        exec java $plain -cp "$peers/jvm:$peers/bcprov-jdk18on-1.80.jar" Jvm
        ;;
    *) usage ;;
esac

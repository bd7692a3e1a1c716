#!/bin/sh
# signal-protocol-java 2.8.1, GPL-3.0: Maven Central, three jars, 1.1 MB. Run, never linked.
. "$(dirname "$0")/peer.sh"
source=$root/crates/mezza-ratchet/tests/peers/PeerJava.java
jars=$peers/signal-protocol-java-2.8.1.jar:$peers/curve25519-java-0.5.0.jar:$peers/protobuf-javalite-3.10.0.jar
needs_jdk
case $action in
    version)
        for jar in $(echo "$jars" | tr : ' '); do
            [ -f "$jar" ] || skipped "$(basename "$jar") is not here" "$fetch_with"
        done
        echo "signal-protocol-java 2.8.1, $(javac -version)"
        ;;
    fetch)
        mkdir -p "$peers"
        jar org.whispersystems:signal-protocol-java:2.8.1 b19db36839ab008fdccefc7f8c005f2ea43dc7c7298a209bc424e6f9b6d5617b
        jar org.whispersystems:curve25519-java:0.5.0 0aadd43cf01d11e9b58f867b3c4f25c3194e8b0623d1953d32dfbfbee009e38d
        jar com.google.protobuf:protobuf-javalite:3.10.0 215a94dbe100130295906b531bb72a26965c7ac8fcd9a75bf8054a8ac2abf4b4
        ;;
    run)
        # Compiled first: a program launched from its source would be measured with its compiler warm.
        javac -proc:none -d "$peers/java" -cp "$jars" "$source"
        exec java -cp "$peers/java:$jars" PeerJava
        ;;
    *) usage ;;
esac

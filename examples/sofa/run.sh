#!/bin/sh
# Two providers and a consumer with the client of SOFARegistry for Java, while the nodes of
# their registry are killed as in the demo. The last line says how many calls have failed.
# It needs a JDK, Maven, and the programs of make build.
set -eu
cd "$(dirname "$0")/../.."
conclave=${BIN:-bin}/conclave dir=$(mktemp -d) pids=
end() {
	kill $pids 2>/dev/null || true
	"$conclave" --dir "$dir/cluster" down --now >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap end EXIT
trap 'exit 1' INT TERM

mvn -q -B -f examples/sofa/pom.xml dependency:build-classpath -Dmdep.outputFile="$dir/classpath" >&2
"$conclave" --dir "$dir/cluster" up --sofa --detach
SOFA=$("$conclave" --dir "$dir/cluster" ps | awk '$1 == "session-1" { print $5 }')
TOKEN=$(cat "$dir/cluster/app-token")
export SOFA TOKEN
greeter() { exec java -cp "$(cat "$dir/classpath")" -Duser.home="$dir" --add-opens=java.base/java.lang=ALL-UNNAMED examples/sofa/Greeter.java "$1"; }
greeter provider & pids="$pids $!"
greeter provider & pids="$pids $!"
greeter consumer >"$dir/consumer" & consumer=$!
pids="$pids $consumer"
until grep -q begin "$dir/consumer"; do
	kill -0 "$consumer"
	sleep 0.2
done
"$conclave" --dir "$dir/cluster" chaos run testbed/demo/demo.txt || failed=1
kill "$consumer"
wait "$consumer" || true
tail -n 1 "$dir/consumer"
exit "${failed:-0}"

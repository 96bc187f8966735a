package node

import (
	"net"
	"net/http"
	"net/http/pprof"

	"conclave/wire"
	"conclave/wire/serve"
)

// profilePath is the prefix of the paths at which a node with Config.Pprof answers
// `go tool pprof`.
const profilePath = "/debug/pprof/"

// profiles returns the handler of profilePath. It answers only requests from a
// loopback address: a profile costs time, and shows what the process does. The
// command line, which may have a secret, is not shown.
func profiles() http.Handler {
	paths := http.NewServeMux()
	paths.HandleFunc(profilePath, pprof.Index)
	paths.HandleFunc(profilePath+"profile", pprof.Profile)
	paths.HandleFunc(profilePath+"trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); err != nil || !ip.IsLoopback() {
			serve.WriteError(w, wire.Errorf(wire.CodeForbidden, "profiles are for requests from this machine, not from %s", r.RemoteAddr))
			return
		}
		paths.ServeHTTP(w, r)
	})
}

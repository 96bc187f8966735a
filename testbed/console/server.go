//go:build !js

package console

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"time"

	"conclave/wire"
	"conclave/wire/serve"
)

//go:embed page
var files embed.FS

// Page returns the files of the page.
func Page() fs.FS {
	page, err := fs.Sub(files, "page")
	if err != nil { // the folder is embedded
		panic(err)
	}
	return page
}

// policy lets the page load its own files and nothing else, and forbids code and
// styles in the document, forms, and frames around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	writeLimit = 10 * time.Second // for one message to a viewer
	keepAlive  = 15 * time.Second
	bodyLimit  = 64 << 10
	bodyTime   = 10 * time.Second // in which a body must arrive

	// At a time, in all and from one address, which cannot take the places of all.
	maxConnections, addressConnections = 1024, 512
	addressViewers                     = maxViewers / 2
)

// Config configures a Server.
type Config struct {
	Hub *Hub // nil: a new one
	// Source is run by Serve, and does what viewers ask for.
	Source Source
	// Watch is the token that watching needs; "": none.
	Watch string
	// Hosts are host names under which a browser may address the server, besides
	// localhost and addresses.
	Hosts []string
	// Opened is called when the one-time link was used, with the address that has used it
	// and the path of the next one, for another browser; nil: there is no next one. Calls
	// may be concurrent.
	Opened func(by, next string)
}

// Server serves the page, its stream, and the actions.
//
// Watching, which includes the lists, needs Config.Watch, if it is set: as "?token=" once, which sets a cookie,
// or as a bearer token. Acting needs the cookie of the one-time link, in a POST that
// no page of another origin has sent; see serve.RefuseForeignPages.
type Server struct {
	cfg    Config
	access *access
	http.Handler
}

// NewServer returns a handler.
func NewServer(c Config) *Server {
	if c.Hub == nil {
		c.Hub = NewHub()
	}
	s := &Server{cfg: c, access: newAccess(c.Watch)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /open/{key}", s.open)
	viewers := serve.NewPlaces(maxViewers, addressViewers)
	mux.Handle("GET /v1/stream", s.watched(viewers.Handler(http.HandlerFunc(s.stream)).ServeHTTP))
	mux.Handle("GET /v1/rights", s.watched(s.rights))
	for path, answer := range Answers {
		mux.Handle("POST /"+path, s.watched(s.asked(path != ListPath, func(ctx context.Context, q Request) (any, error) { return answer(ctx, c.Source, q) })))
	}
	mux.Handle("GET /", s.watched(http.FileServerFS(Page()).ServeHTTP))
	s.Handler = serve.RefuseForeignPages(secured(mux), c.Hosts...)
	return s
}

// Link returns the path of a new one-time link. The one before is void.
func (s *Server) Link() string { return "/open/" + s.access.oneTime() }

// secured adds the headers that every answer has.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// watched lets requests pass that may watch.
func (s *Server) watched(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.URL.Query().Get("token"); token != "" && s.cfg.Watch != "" && equal(token, s.cfg.Watch) {
			grant(w, r, s.access.watchCookie, token)
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		if !s.access.mayWatch(r) {
			serve.WriteError(w, wire.Errorf(wire.CodeUnauthorized, "watching needs the console's token: open the address that it has printed"))
			return
		}
		next(w, r)
	})
}

// open takes the one-time link, and sets the cookie for acting.
func (s *Server) open(w http.ResponseWriter, r *http.Request) {
	if !s.access.use(r.PathValue("key")) {
		serve.WriteError(w, wire.Errorf(wire.CodeForbidden, "this link was used already, or is not the newest one"))
		return
	}
	grant(w, r, s.access.actCookie, s.access.key)
	http.Redirect(w, r, "/", http.StatusSeeOther)
	if s.cfg.Opened != nil {
		_ = http.NewResponseController(w).Flush() // the answer does not wait for a terminal
		s.cfg.Opened(r.RemoteAddr, s.Link())
	}
}

// rights answers whether this viewer may act.
func (s *Server) rights(w http.ResponseWriter, r *http.Request) {
	serve.WriteJSON(w, http.StatusOK, map[string]bool{"act": s.cfg.Source.Acts() == Holder && s.access.mayAct(r)})
}

// stream sends a snapshot, and then changes.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	v, first := s.cfg.Hub.watch()
	if v == nil {
		serve.WriteError(w, wire.Errorf(wire.CodeUnavailable, "%d viewers watch already", maxViewers))
		return
	}
	defer s.cfg.Hub.leave(v)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(bodies ...[]byte) bool {
		if out.SetWriteDeadline(time.Now().Add(writeLimit)) != nil {
			return false
		}
		for _, body := range bodies {
			if _, err := w.Write(body); err != nil {
				return false
			}
		}
		return out.Flush() == nil
	}
	if !send(first) {
		return
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		select {
		case m, ok := <-v.queue:
			if !ok || !send(append([][]byte{m}, v.waiting()...)...) {
				return
			}
		case <-alive.C:
			if !send([]byte(": alive\n\n")) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// request reads the body of a POST, and checks whether the viewer may ask for it, if that
// concerns an act.
func (s *Server) request(w http.ResponseWriter, r *http.Request, act bool) (Request, error) {
	var q Request
	acts := s.cfg.Source.Acts()
	if act && acts == Nobody {
		return q, wire.Errorf(wire.CodeForbidden, "this console only watches: start it with --allow-actions, or with the cluster")
	}
	response := http.NewResponseController(w)
	_ = response.SetReadDeadline(time.Now().Add(bodyTime)) // a recorder of a test has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		return q, wire.Errorf(wire.CodeBadRequest, "read the request: %v", err)
	}
	_ = response.SetReadDeadline(time.Time{}) // what is asked for may take longer
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(&q); err != nil {
		return q, wire.Errorf(wire.CodeBadRequest, "decode the request: %v", err)
	}
	q.By = serve.HostOf(r.RemoteAddr)
	if act && acts == Holder && !s.access.mayAct(r) {
		return q, wire.Errorf(wire.CodeForbidden, "acting needs the one-time link that the console has printed")
	}
	return q, nil
}

// asked answers a POST with what do returns. An error without a code is the
// request's fault.
func (s *Server) asked(act bool, do func(context.Context, Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var answer any
		q, err := s.request(w, r, act)
		if err == nil {
			answer, err = do(r.Context(), q)
		}
		var coded *wire.Error
		switch {
		case err == nil:
			serve.WriteJSON(w, http.StatusOK, answer)
		case errors.As(err, &coded):
			serve.WriteError(w, err)
		default:
			serve.WriteError(w, wire.Errorf(wire.CodeBadRequest, "%v", err))
		}
	}
}

// Serve runs the source, and serves it, until ctx or one of the two ends.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	places := serve.NewPlaces(maxConnections, addressConnections)
	server := serve.NewHTTPServer(places.Listener(ln), s, wire.PingTimeout)
	ctx, end := context.WithCancel(ctx)
	defer end()
	var shown error
	var both sync.WaitGroup
	both.Go(func() {
		defer end()
		shown = s.cfg.Source.Run(ctx, s.cfg.Hub)
	})
	both.Go(func() {
		<-ctx.Done()
		server.Close()
	})
	err := server.Serve()
	end()
	both.Wait()
	return errors.Join(err, shown)
}

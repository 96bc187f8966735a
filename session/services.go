package session

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gorilla/mux"

	"conclave"
	"conclave/internal/contain"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/serve"
)

// services answers the requests below /v1/services, by which programs in any language
// register, read and watch services without a stream of this protocol (docs/http.md).
type services struct {
	config      Config
	registrants *registrants
	polls       *polls
	catalog     *catalog
	intake      *admit.Budget // bytes of bodies, by host
	large       *admit.Budget // bytes of large answers that are being sent, by host
	addresses   func() []string
}

// openAPI describes these requests (OpenAPI 3.1).
//
//go:embed openapi.json
var openAPI []byte

// add adds the paths to the router. A name in a path is one segment, in which a slash is
// %2F, so these paths are matched as they were sent.
func (s *services) add(r *mux.Router) {
	r.HandleFunc("/v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI) // fails only if the client has disconnected
	}).Methods(http.MethodGet, http.MethodHead)
	r.UseEncodedPath()
	const registration = "/v1/services/{dataId}/registrations/{id}"
	for _, x := range []struct {
		method, path string
		handle       func(http.ResponseWriter, *http.Request) error
	}{
		{http.MethodPut, registration, s.putRegistration},
		{http.MethodDelete, registration, s.deleteRegistration},
		{http.MethodPost, registration + "/renew", s.renewRegistration},
		{http.MethodGet, "/v1/services", s.listServices},
		{http.MethodGet, "/v1/services/{dataId}", s.getService},
		{http.MethodGet, "/v1/services/{dataId}/events", s.streamService},
	} {
		methods := []string{x.method}
		if x.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		r.Handle(x.path, withRequest(s.answering(x.handle), s.intake)).Methods(methods...)
	}
}

// answering answers the error of a handler. A refusal that another session would not
// give names the others.
func (s *services) answering(handle func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.polls.answered(r)
		w.Header().Set("Cache-Control", "no-store")
		var err error
		contain.Run(s.config.Logger, func(panicked error) { err = wire.Errorf(wire.CodeInternal, "%v", panicked) }, func() { err = handle(w, r) })
		if err == nil {
			return
		}
		if wire.CodeOf(err) == "" && r.Context().Err() != nil {
			if err = context.Cause(r.Context()); wire.CodeOf(err) == "" { // otherwise the token was revoked
				err = wire.Errorf(wire.CodeUnavailable, "this session ends") // or the client has disconnected
			}
		}
		var more map[string]any
		switch wire.CodeOf(err) {
		case wire.CodeUnavailable, wire.CodeLimitReached:
			w.Header().Set("Retry-After", "1")
			more = map[string]any{"sessions": s.addresses()}
		}
		if moves, _ := s.registrants.clients.refuseRequest(); moves && wire.CodeOf(err) == wire.CodeUnavailable && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close") // another session may be behind the same name; over HTTP/2 this would end what others ask by the connection
		}
		if h, ok := errors.AsType[held](err); ok {
			more = map[string]any{"version": h.version, "remedy": "Send a version above the one that is named, or none."}
		}
		serve.WriteProblem(w, err, more)
	})
}

// registrationIn is the body of a request that registers.
type registrationIn struct {
	Values  []string `json:"values"`
	Version int64    `json:"version"`
	TTLMs   int64    `json:"ttlMs"`
}

// registrationOut answers a request for a registration.
type registrationOut struct {
	conclave.DataInfoID
	ID           string   `json:"id"`
	Version      int64    `json:"version"`
	Stored       bool     `json:"stored"` // data has it
	TTLMs        int64    `json:"ttlMs,omitempty"`
	RenewAfterMs int64    `json:"renewAfterMs,omitempty"`
	Session      string   `json:"session"`
	Sessions     []string `json:"sessions"` // the addresses of all that take clients
}

func (s *services) putRegistration(w http.ResponseWriter, r *http.Request) error {
	x, err := registrantOf(r)
	if err != nil {
		return err
	}
	in, err := bodyOf(r)
	if err != nil {
		return err
	}
	ttl, most := time.Duration(in.TTLMs)*time.Millisecond, registry.FreshFor(s.config.SessionGrace)
	if in.TTLMs == 0 {
		ttl = most
	}
	if in.TTLMs < 0 || in.TTLMs > wire.Ms(most) || ttl < leastTTL {
		return wire.Errorf(wire.CodeBadRequest, "ttlMs %d: want %d to %d: two thirds of the session grace, so that no session shows what its client has withdrawn at another one", in.TTLMs, wire.Ms(leastTTL), wire.Ms(most))
	}
	if in.Version < 0 {
		return wire.Errorf(wire.CodeBadRequest, "version %d: want a positive number, or none", in.Version)
	}
	if in.Values == nil {
		return wire.Errorf(wire.CodeBadRequest, `the body has no values: want {"values": ["10.0.0.1:8080"]}`)
	}
	out, err := s.registrants.put(r.Context(), x, in.Version, in.Values, ttl)
	return s.answer(w, x, out, err)
}

func (s *services) deleteRegistration(w http.ResponseWriter, r *http.Request) error {
	x, version, err := versionOf(r, false)
	if err != nil {
		return err
	}
	out, err := s.registrants.withdraw(r.Context(), x, version)
	out.ttl = 0
	return s.answer(w, x, out, err)
}

func (s *services) renewRegistration(w http.ResponseWriter, r *http.Request) error {
	x, version, err := versionOf(r, true)
	if err != nil {
		return err
	}
	out, err := s.registrants.renew(r.Context(), x, version)
	return s.answer(w, x, out, err)
}

// answer answers that a registration was taken: 200 if data has it, otherwise 202.
func (s *services) answer(w http.ResponseWriter, x registrant, out registered, err error) error {
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !out.stored {
		status = http.StatusAccepted
	}
	serve.WriteJSON(w, status, registrationOut{
		DataInfoID: x.data, ID: x.id, Version: out.version, Stored: out.stored, TTLMs: wire.Ms(out.ttl), RenewAfterMs: wire.Ms(out.ttl / renewals),
		Session: s.config.Node.Name, Sessions: s.addresses(),
	})
	return nil
}

// registrantOf returns the registration that a request is for.
func registrantOf(r *http.Request) (x registrant, err error) {
	if x.data, err = serviceOf(r); err != nil {
		return x, err
	}
	if x.id, err = serve.Segment(r, "id"); err != nil {
		return x, err
	}
	if len(x.id) > maxNameBytes || !utf8.ValidString(x.id) || strings.ContainsFunc(x.id, unicode.IsControl) {
		return x, wire.Errorf(wire.CodeBadRequest, "registration id %.20q: want 1 to %d bytes of UTF-8 without control characters", x.id, maxNameBytes)
	}
	x.Caller = serve.CallerOf(r)
	return x, nil
}

// versionOf returns the registration that a request is for, and ?version=.
func versionOf(r *http.Request, needed bool) (x registrant, version int64, err error) {
	if x, err = registrantOf(r); err != nil {
		return x, 0, err
	}
	text := r.URL.Query().Get("version")
	if text == "" && !needed {
		return x, 0, nil
	}
	if version, err = strconv.ParseInt(text, 10, 64); err != nil || version < 1 || version > conclave.MaxVersion {
		return x, 0, wire.Errorf(wire.CodeBadRequest, "version %.20q: want the one that the registration was answered", text)
	}
	return x, version, nil
}

// serviceOf returns the name in the path, with ?group= and ?instance=.
func serviceOf(r *http.Request) (conclave.DataInfoID, error) {
	dataID, err := serve.Segment(r, "dataId")
	if err != nil {
		return conclave.DataInfoID{}, err
	}
	q := r.URL.Query()
	data, err := conclave.NewDataInfoID(dataID, q.Get("instance"), q.Get("group"))
	if err != nil {
		return data, wire.Errorf(wire.CodeBadRequest, "%v", err)
	}
	return data, nil
}

// mostValues is how many values a body may have: more do not fit into a registration.
const mostValues = conclave.MaxRequest / 8

// bodyOf reads the body of a request that registers. Its bytes count for the intake of its
// address until it is decoded: a request that waits later holds none of it.
func bodyOf(r *http.Request) (in registrationIn, err error) {
	if x, ok := r.Context().Value(requestKey{}).(*request); ok {
		defer x.body.handled()
	}
	body, err := io.ReadAll(r.Body)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return in, wire.Errorf(wire.CodeTooLarge, "the body has more than %d bytes", large.Limit)
	}
	if wire.CodeOf(err) != "" {
		return in, err
	}
	if err != nil {
		return in, wire.Errorf(wire.CodeBadRequest, "the body did not arrive: %v", err)
	}
	if n := bytes.Count(body, []byte(",")); n > mostValues {
		return in, wire.Errorf(wire.CodeTooLarge, "the body has more than %d values", mostValues)
	}
	decoder := json.NewDecoder(bytes.NewReader(body)) // unknown members belong to a later version of this interface
	if err = decoder.Decode(&in); err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more after it")
		}
	}
	if err != nil {
		return in, wire.Errorf(wire.CodeBadRequest, `the body is not {"values": [...], "version": N, "ttlMs": N}: %v`, err)
	}
	return in, nil
}

// serviceOut is a service at a version.
type serviceOut struct {
	conclave.DataInfoID
	Version       int64    `json:"version"`
	Cursor        string   `json:"cursor"` // for ?after= and Last-Event-ID
	Values        []string `json:"values"`
	UnconfirmedMs int64    `json:"unconfirmedMs,omitempty"` // values may be missing that are expected back within this time
}

// Limits of reads.
const (
	pollWait   = 30 * time.Second // for which a request waits for the next version, unless it names another time
	pollMost   = 5 * time.Minute
	stillThere = 15 * time.Second // between two lines in a stream without events
)

// getService answers with a service as it is, or, with ?after=CURSOR, when there is
// another version than that one: 204 if there is none within ?waitMs=.
func (s *services) getService(w http.ResponseWriter, r *http.Request) error {
	data, err := serviceOf(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	have, err := seenOf(q.Get("after"))
	if err != nil {
		return err
	}
	wait := pollWait
	if text := q.Get("waitMs"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if wait = time.Duration(ms) * time.Millisecond; err != nil || ms < 1 || ms > wire.Ms(pollMost) {
			return wire.Errorf(wire.CodeBadRequest, "waitMs %.20q: want 1 to %d", text, wire.Ms(pollMost))
		}
	}
	push, ok, err := s.polls.first(r.Context(), serve.CallerOf(r), data, have, wait)
	if err != nil {
		return err
	}
	if !ok {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return s.send(r, w, push, func(out serviceOut) error {
		serve.WriteJSON(w, http.StatusOK, out)
		return nil
	})
}

// streamService sends each version of a service as a server-sent event, the first at once
// unless its cursor is Last-Event-ID (or ?after=).
func (s *services) streamService(w http.ResponseWriter, r *http.Request) error {
	data, err := serviceOf(r)
	if err != nil {
		return err
	}
	have, err := seenOf(cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return nil
	}
	ctx, caller := r.Context(), serve.CallerOf(r)
	p, err := s.polls.open(ctx, caller, data, have)
	if restarts(&have, err) {
		p, err = s.polls.open(ctx, caller, data, have)
	}
	if err != nil {
		return err
	}
	response := http.NewResponseController(w)
	write := func(text string) error {
		_ = response.SetWriteDeadline(time.Now().Add(sendLimit))
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return response.Flush()
	}
	for text := ": " + data.DataID + "\n\n"; ; {
		if write(text) != nil {
			return nil // the client has disconnected, or does not read
		}
		limited, cancel := context.WithTimeout(ctx, stillThere)
		push, err := p.next(limited)
		cancel()
		if restarts(&have, err) {
			if p, err = s.polls.open(ctx, caller, data, have); err == nil {
				text = ""
				continue
			}
		}
		switch {
		case ctx.Err() != nil || p == nil || p.ended():
			return nil // the client connects again, with the id of the last event
		case errors.Is(err, context.DeadlineExceeded):
			text = ": still here\n\n"
			continue
		case err != nil:
			body, _ := json.Marshal(map[string]any{"code": wire.CodeOf(err), "detail": err.Error()}) // of strings
			if text = fmt.Sprintf("event: problem\ndata: %s\n\n", body); !push.Continues() {
				_ = write(text) // it is the last
				return nil
			}
			continue
		}
		if s.send(r, w, push, func(out serviceOut) error {
			if _, err := fmt.Fprintf(w, "id: %s\nevent: version\ndata: ", out.Cursor); err != nil {
				return err
			}
			encoder := json.NewEncoder(w)
			encoder.SetEscapeHTML(false)
			return cmp.Or(encoder.Encode(out), write("\n")) // Encode ends the line
		}) != nil {
			return nil
		}
		text = ""
	}
}

// sending waits until an answer of a size may be sent, in turn with other large ones to the
// same address. The client has sendLimit to read it. Leave the turn when it is sent.
func (s *services) sending(w http.ResponseWriter, r *http.Request, size int) (turn *admit.Turn, err error) {
	if size > largeSend {
		turn, err = s.large.Wait(r.Context(), serve.HostOf(r.RemoteAddr), size)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendLimit))
	return turn, err
}

// send calls write with a list, when it is its turn.
func (s *services) send(r *http.Request, w http.ResponseWriter, push registry.Push, write func(serviceOut) error) error {
	data, version, l, unconfirmed := push.List()
	turn, err := s.sending(w, r, l.Size())
	if err != nil {
		return err
	}
	defer turn.Leave()
	out := serviceOut{DataInfoID: data, Version: version, Cursor: seenIn(version, l).String(), Values: l.Values, UnconfirmedMs: wire.Ms(unconfirmed)}
	if out.Values == nil {
		out.Values = []string{}
	}
	return write(out)
}

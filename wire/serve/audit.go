package serve

import (
	"net/http"

	"conclave/wire/rights"
)

// Act is a request that changes something, for the audit log. What an operator
// asked of a meta that does not lead is an act at both, the second time from the
// address of the first.
type Act struct {
	Identity rights.Identity
	Request  string // method, path and query
	From     string // address
	Status   int    // of the answer; 0 for a stream, which has only begun
}

// maxShown limits what of a request the audit log shows, in bytes.
const maxShown = 256

// audit calls handle, and reports an act.
func (c RouterConfig) audit(need route, w http.ResponseWriter, r *http.Request, handle func(http.ResponseWriter)) {
	if c.Audit == nil || need.right != rights.Operator && !need.acts {
		handle(w)
		return
	}
	id, _ := rights.Of(r.Context())
	request := r.Method + " " + r.URL.RequestURI()
	act := Act{Identity: id, Request: request[:min(len(request), maxShown)], From: r.RemoteAddr}
	if need.lasts {
		c.Audit(act)
		handle(w)
		return
	}
	answer := &statusWriter{w, http.StatusOK}
	handle(answer)
	act.Status = answer.status
	c.Audit(act)
}

// statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

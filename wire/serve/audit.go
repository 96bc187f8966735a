package serve

import (
	"net/http"
	"slices"

	"conclave/wire/rights"
	"conclave/wire/v1/wirev1connect"
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

// actsOfNodes are the requests with the right node that are acts: of the others
// there are thousands each second.
var actsOfNodes = []string{
	"PUT /v1/observers/{name}", "DELETE /v1/observers/{name}",
	wirev1connect.NodeServiceAnnounceProcedure, wirev1connect.MetaServiceJoinProcedure, wirev1connect.MetaServiceLeaveProcedure,
	wirev1connect.MetaServiceDrainProcedure, wirev1connect.MetaServiceRestoreProcedure, wirev1connect.MetaServiceWitnessProcedure,
	wirev1connect.MetaServiceWakeProcedure, wirev1connect.DataServiceFinishProcedure,
}

// isAct reports whether a request with this key of the table is an act.
func isAct(key string) bool {
	need, known := required[key]
	return !known || need == rights.Operator || slices.Contains(actsOfNodes, key)
}

// maxShown limits what of a request the audit log shows, in bytes.
const maxShown = 256

// audit calls handle, and reports the act.
func (c RouterConfig) audit(key string, w http.ResponseWriter, r *http.Request, handle func(http.ResponseWriter)) {
	if c.Audit == nil || !isAct(key) {
		handle(w)
		return
	}
	id, _ := rights.Of(r.Context())
	request := r.Method + " " + r.URL.RequestURI()
	act := Act{Identity: id, Request: request[:min(len(request), maxShown)], From: r.RemoteAddr}
	if slices.Contains(lasting, key) {
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

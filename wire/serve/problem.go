package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"

	"conclave/wire"
)

// remedies tell the sender of a request how to go on after an error, by its code.
var remedies = map[wire.Code]string{
	wire.CodeNotLeader:    "Send the request to the leader that is named.",
	wire.CodeNoLeader:     "Wait until a meta node leads, and send the request again.",
	wire.CodeStaleEpoch:   "Read the present state first.",
	wire.CodeNoSuccessor:  "Start another node first.",
	wire.CodeUnsafe:       "Add force=true if you want it all the same.",
	wire.CodeConflict:     "Read the present state, and decide again.",
	wire.CodeNotFound:     "Check the path and the names in it.",
	wire.CodeBadRequest:   "Correct the request: it fails again as it is.",
	wire.CodeTooLarge:     "Send less in one request.",
	wire.CodeLimitReached: "Wait, remove something, or use another node.",
	wire.CodeUnauthorized: "Send the header Authorization: Bearer TOKEN, with a valid token.",
	wire.CodeForbidden:    "Use a token that has the right.",
	wire.CodeUnavailable:  "Send the request again after a pause, or to another node.",
	wire.CodeInternal:     "Report it: this is a defect of the node.",
}

// WriteError sends an error as problem details (RFC 9457), with the status of its code. Its
// members code and remedy, and error:{code, message, details} for older readers, extend them.
func WriteError(w http.ResponseWriter, err error) {
	WriteProblem(w, err, nil)
}

// WriteProblem is WriteError with more members.
func WriteProblem(w http.ResponseWriter, err error, more map[string]any) {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		e = wire.Errorf(wire.CodeInternal, "%v", err)
	}
	writeErrorStatus(w, e.Status(), e, more)
}

func writeErrorStatus(w http.ResponseWriter, status int, e *wire.Error, more map[string]any) {
	details := map[string]any{}
	if e.Leader != "" {
		details["leader"], details["address"] = e.Leader, e.Address
	}
	if !e.Epoch.IsZero() {
		details["epoch"] = e.Epoch
	}
	problem := map[string]any{
		"type": "urn:conclave:error:" + string(e.Code), "title": http.StatusText(status), "status": status, "detail": e.Message,
		"code": e.Code, "remedy": remedies[e.Code],
		"error": map[string]any{"code": e.Code, "message": e.Message, "details": details},
	}
	maps.Copy(problem, more)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(problem) // of what JSON has
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // an error means that the client has disconnected
}

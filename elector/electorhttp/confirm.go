package electorhttp

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"conclave/elector"
)

// Confirmation is the question that a candidate asks the leader whose connection to the
// database has broken: do you lead this term? Without it such a leader is replaced
// though it lives (termcas.Config.Ask). Each candidate serves Handler at Path, and
// registers where it does as elector.Config.Address: host:port, or a URL without a path
// (https://host:port). The address must reach this process alone, and no load balancer.
type Confirmation struct {
	Election string // its name; a question for another one is refused
	Path     string // of Handler at each candidate, such as /election/confirm
	// Token is a secret that the candidates share: a question can make a leader give its
	// term up. With none each question is refused.
	Token     string
	Transport http.RoundTripper // for TLS; nil is one that keeps no connections
	// Logger receives a WARN when the leader's address answers, but not as Handler does:
	// with another Path, Election or Token, or as another server; nil discards it.
	Logger *slog.Logger
}

var withoutKeepAlive = &http.Transport{DisableKeepAlives: true}

// header marks an answer of Handler: another server at the address may say 200 as well.
const header = "Elector-Term"

// Ask is a termcas.Config.Ask: it asks the process at address until ctx ends, which is
// after 100 ms. What is no answer of Handler to this question is none (known is false).
func (c Confirmation) Ask(ctx context.Context, address string, term uint64, lock string) (alive, known bool) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	number := strconv.FormatUint(term, 10)
	question := url.Values{"election": {c.Election}, "term": {number}, "lock": {lock}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+c.Path+"?"+question.Encode(), nil)
	if err != nil {
		return false, false
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(c.Token))
	transport := c.Transport
	if transport == nil {
		transport = withoutKeepAlive
	}
	w, err := transport.RoundTrip(r) // which follows no redirect
	if err != nil {
		return false, errors.Is(err, syscall.ECONNREFUSED)
	}
	defer w.Body.Close()
	if known = w.Header.Get(header) == number; !known && c.Logger != nil {
		c.Logger.Warn("the leader's address does not answer as a candidate: without an answer a leader that lives is replaced", "election", c.Election,
			"url", address+c.Path, "status", w.Status, "advice", "give all candidates one Path, Election and Token, and each as Config.Address where it serves Handler")
	}
	return known && w.StatusCode == http.StatusOK, known
}

// Handler answers the question for e by elector.Elector.ConfirmLeading: 200 if this node
// leads the term, and 409 if not, as its promise never to lead it.
func (c Confirmation) Handler(e *elector.Elector) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			answer(w, http.StatusMethodNotAllowed, "want POST")
			return
		}
		token, secret := []byte(r.Header.Get("Authorization")), strings.TrimSpace(c.Token)
		if secret == "" || subtle.ConstantTimeCompare(token, []byte("Bearer "+secret)) != 1 {
			answer(w, http.StatusUnauthorized, "want the token that the candidates share")
			return
		}
		question := r.URL.Query()
		term, err := strconv.ParseUint(question.Get("term"), 10, 64)
		if err != nil || term == 0 {
			answer(w, http.StatusBadRequest, "want term=N")
			return
		}
		if question.Get("election") != c.Election {
			answer(w, http.StatusNotFound, "this process takes part in another election")
			return
		}
		w.Header().Set(header, strconv.FormatUint(term, 10))
		if !e.ConfirmLeading(term, question.Get("lock")) {
			answer(w, http.StatusConflict, fmt.Sprintf("term %d is not led here", term))
			return
		}
		answer(w, http.StatusOK, fmt.Sprintf("term %d is led here", term))
	})
}

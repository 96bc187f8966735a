package electorhttp

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
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
	Path string // of Handler at each candidate, such as /election/confirm
	// Token is a secret that the candidates share: who may ask can make a leader give its
	// term up. With none each question is refused.
	Token  string
	Client *http.Client // for TLS; nil is one that keeps no connections
}

var withoutKeepAlive = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Ask is a termcas.Config.Ask: it asks the process at address until ctx ends.
func (c Confirmation) Ask(ctx context.Context, address string, term uint64, lock string) (alive, known bool) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	question := url.Values{"term": {strconv.FormatUint(term, 10)}, "lock": {lock}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+c.Path+"?"+question.Encode(), nil)
	if err != nil {
		return false, false
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	client := c.Client
	if client == nil {
		client = withoutKeepAlive
	}
	w, err := client.Do(r)
	if err != nil {
		return false, errors.Is(err, syscall.ECONNREFUSED)
	}
	defer w.Body.Close()
	alive = w.StatusCode == http.StatusOK
	return alive, alive || w.StatusCode == http.StatusConflict
}

// Handler answers the question for e by elector.Elector.ConfirmLeading: 200 if this node
// leads the term, and 409 as its promise never to lead it.
func (c Confirmation) Handler(e *elector.Elector) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			answer(w, http.StatusMethodNotAllowed, "want POST")
			return
		}
		token := []byte(r.Header.Get("Authorization"))
		if c.Token == "" || subtle.ConstantTimeCompare(token, []byte("Bearer "+c.Token)) != 1 {
			answer(w, http.StatusUnauthorized, "want the token that the candidates share")
			return
		}
		question := r.URL.Query()
		term, err := strconv.ParseUint(question.Get("term"), 10, 64)
		if err != nil {
			answer(w, http.StatusBadRequest, "want term=N")
			return
		}
		if !e.ConfirmLeading(term, question.Get("lock")) {
			answer(w, http.StatusConflict, fmt.Sprintf("term %d is not led here", term))
			return
		}
		answer(w, http.StatusOK, fmt.Sprintf("term %d is led here", term))
	})
}

package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"conclave/testbed"
)

// operator is an operator with an HTTP client that knows only the nodes'
// addresses and the documented paths.
type operator struct {
	cluster testbed.RealCluster
	http    *http.Client
}

// askTimeout bounds one request. A paused node must not delay the others.
const askTimeout = 2 * time.Second

// changeTimeout bounds one changing request, which waits for the database.
const changeTimeout = 5 * time.Second

// newOperator returns an operator that keeps no connections: an old one may
// lead to a process that has ended.
func newOperator(c testbed.RealCluster) *operator {
	return &operator{cluster: c, http: &http.Client{Transport: c.Secure(&http.Transport{DisableKeepAlives: true, DialContext: c.Dial})}}
}

// refusedError is an error that the API returned.
type refusedError struct {
	status  int
	code    string
	message string
}

func (e *refusedError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.code, e.message) }

// refused reports whether err is a refusal, as opposed to the failure of a node
// that could not answer (no leader, not reachable).
func refused(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && r.status < 500
}

// call sends one request to a node.
func (o *operator) call(ctx context.Context, address, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token := o.cluster.Token(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := o.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return err
	}
	if res.StatusCode >= http.StatusBadRequest {
		var e struct {
			Error struct{ Code, Message string }
		}
		_ = json.Unmarshal(answer, &e) // an answer without the usual body is a refusal, too
		return &refusedError{res.StatusCode, e.Error.Code, e.Error.Message}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// metas returns the metas' sorted names and their addresses by name.
func (o *operator) metas() (names []string, addresses map[string]string) {
	addresses = o.cluster.Addresses()
	for name := range addresses {
		if strings.HasPrefix(name, "meta-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, addresses
}

// any asks the metas in turn until one answers or refuses.
func (o *operator) any(ctx context.Context, timeout time.Duration, method, path string, in, out any) error {
	names, at := o.metas()
	err := errors.New("the cluster has no meta")
	for _, name := range names {
		asking, cancel := context.WithTimeout(ctx, timeout)
		err = o.call(asking, at[name], method, path, in, out)
		cancel()
		if err == nil || refused(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// leaderInfo answers /v1/leader.
type leaderInfo struct {
	Leader           string `json:"leader"`
	Term             uint64 `json:"term"`
	LeaseRemainingMs int64  `json:"leaseRemainingMs"`
}

// leader returns the leader of the highest term that any meta names. All metas
// are asked at the same time.
func (o *operator) leader(ctx context.Context) (best leaderInfo) {
	names, at := o.metas()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make(chan leaderInfo, len(names))
	for _, name := range names {
		go func() { // joined by the loop below
			var l leaderInfo
			_ = o.call(ctx, at[name], http.MethodGet, "/v1/leader", nil, &l) // no answer: the zero leaderInfo
			answers <- l
		}()
	}
	for range names {
		if l := <-answers; l.Leader != "" && l.Term > best.Term {
			best = l
		}
	}
	return best
}

// slotsInfo is the part of /v1/slots that the checks need.
type slotsInfo struct {
	Stable    bool       `json:"stable"`
	Protected bool       `json:"protected"`
	Reason    string     `json:"reason"`
	Slots     []slotInfo `json:"slots"`
}

type slotInfo struct {
	ID        int      `json:"id"`
	Leader    string   `json:"leader"`
	Followers []string `json:"followers"`
	State     string   `json:"state"`
}

// String returns how many slots each data node leads and follows.
func (s slotsInfo) String() string {
	leads, follows := map[string]int{}, map[string]int{}
	for _, x := range s.Slots {
		leads[x.Leader]++
		for _, f := range x.Followers {
			follows[f]++
			leads[f] += 0 // list every node
		}
	}
	var out []string
	for _, n := range slices.Sorted(maps.Keys(leads)) {
		out = append(out, fmt.Sprintf("%s leads %d, follows %d", n, leads[n], follows[n]))
	}
	if why := s.unserved(); why != "" {
		out = append(out, why)
	}
	return strings.Join(out, "; ")
}

// unserved describes why the table is not at rest; "": every slot is served.
func (s slotsInfo) unserved() string {
	moving := 0
	for _, x := range s.Slots {
		if x.State != "stable" || x.Leader == "" {
			moving++
		}
	}
	switch {
	case len(s.Slots) == 0:
		return "there is no slot table"
	case moving > 0:
		return fmt.Sprintf("%d of %d slots are not stable", moving, len(s.Slots))
	case s.Protected:
		return "protected: " + s.Reason
	case !s.Stable:
		return "the table is not stable"
	}
	return ""
}

func (o *operator) slots(ctx context.Context) (s slotsInfo, err error) {
	return s, o.any(ctx, askTimeout, http.MethodGet, "/v1/slots", nil, &s)
}

// election is one row of /v1/elections.
type election struct {
	Term  uint64 `json:"term"`
	Owner string `json:"owner"`
}

func (o *operator) elections(ctx context.Context) (all []election, err error) {
	return all, o.any(ctx, askTimeout, http.MethodGet, "/v1/elections", nil, &all)
}

func (o *operator) blacklisted(ctx context.Context) (names []string, err error) {
	var all []struct {
		Name string `json:"name"`
	}
	err = o.any(ctx, askTimeout, http.MethodGet, "/v1/blacklist", nil, &all)
	for _, b := range all {
		names = append(names, b.Name)
	}
	return names, err
}

// notReady returns the nodes whose /readyz is not 200, with the reason.
func (o *operator) notReady(ctx context.Context) []string {
	at := o.cluster.Addresses()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make(chan string, len(at))
	for name, address := range at {
		go func() { // joined by the loop below
			if err := o.call(ctx, address, http.MethodGet, "/readyz", nil, nil); err != nil {
				answers <- fmt.Sprintf("%s (%v)", name, err)
				return
			}
			answers <- ""
		}()
	}
	var out []string
	for range at {
		if a := <-answers; a != "" {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return out
}

// do sends one operator command, once.
func (o *operator) do(ctx context.Context, s Step) error {
	switch s.Act {
	case Drain:
		if strings.HasPrefix(s.Node, "meta-") { // as `conclave drain` does
			return o.election(ctx, s.Node, "quit")
		}
		return o.any(ctx, changeTimeout, http.MethodPut, "/v1/blacklist/"+s.Node, map[string]string{"reason": "soak", "by": "soak"}, nil)
	case testbed.Allow:
		if strings.HasPrefix(s.Node, "meta-") {
			return o.election(ctx, s.Node, "join")
		}
		return o.any(ctx, changeTimeout, http.MethodDelete, "/v1/blacklist/"+s.Node, nil, nil)
	case testbed.Resign:
		return o.any(ctx, changeTimeout, http.MethodPost, "/v1/leader/resign", nil, nil)
	case testbed.Quit:
		return o.election(ctx, s.Node, "quit")
	case testbed.Join:
		return o.election(ctx, s.Node, "join")
	case testbed.Switch:
		return o.any(ctx, changeTimeout, http.MethodPut, "/v1/switches/"+s.Key, map[string]string{"value": s.Value}, nil)
	}
	return fmt.Errorf("%q is not an operator command", s.Act)
}

// election sends a command to the named meta itself.
func (o *operator) election(ctx context.Context, name, act string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	return o.call(ctx, o.cluster.Addresses()[name], http.MethodPost, "/v1/election/"+act, nil, nil)
}

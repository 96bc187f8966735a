package consul

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/wire"
	"conclave/wire/serve"
)

// query is what a request asks for.
type query struct {
	name    string        // in the path
	index   uint64        // wait for a higher one; 0: answer at once
	wait    time.Duration // at most so long, without the jitter
	tags    []string
	without []string // statuses
	at      string   // HOST:PORT; "": any
}

// Of a query that blocks.
const (
	waitDefault = 5 * time.Minute
	waitMost    = 10 * time.Minute
	waitJitter  = 16 // up to one in so many parts is added
)

// unsupported are the parameters that choose what is not here. To ignore one would
// answer more than was asked for.
var unsupported = []string{"filter", "ns", "partition", "peer", "sg", "node-meta", "hash"}

// queryOf reads the parameters of a request. near, stale, consistent, cached, pretty and
// merge-central-config change nothing: a list has no distances, and is as new as this
// session knows it.
func queryOf(r *http.Request, dataCenter string) (q query, err error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, wire.Errorf(wire.CodeBadRequest, "the query is invalid: %v", err)
	}
	for _, name := range unsupported {
		if v.Get(name) != "" {
			return q, wire.Errorf(wire.CodeBadRequest, "the parameter %q is not supported: leave it out, and choose among what is answered", name)
		}
	}
	if q.name, err = serve.Segment(r, "name"); err != nil {
		return q, err
	}
	index, indexErr := strconv.ParseUint(cmp.Or(v.Get("index"), "0"), 10, 64)
	wait, waitErr := time.ParseDuration(cmp.Or(v.Get("wait"), "0s"))
	only, onlyErr := strconv.ParseBool(cmp.Or(v.Get("passing"), strconv.FormatBool(v.Has("passing"))))
	switch dc := v.Get("dc"); {
	case dc != "" && !strings.EqualFold(dc, dataCenter):
		return q, wire.Errorf(wire.CodeBadRequest, "no path to datacenter %.64q: this cluster is %q", dc, dataCenter)
	case indexErr != nil:
		return q, wire.Errorf(wire.CodeBadRequest, "invalid index %.20q: want the X-Consul-Index of an answer", v.Get("index"))
	case waitErr != nil || wait < 0:
		return q, wire.Errorf(wire.CodeBadRequest, "invalid wait time %.20q: want a duration, such as 30s", v.Get("wait"))
	case onlyErr != nil:
		return q, wire.Errorf(wire.CodeBadRequest, "invalid value %.20q of passing: want true or false", v.Get("passing"))
	case only:
		q.without = []string{warning, critical}
	}
	q.index, q.wait = index, min(cmp.Or(wait, waitDefault), waitMost)
	q.tags = slices.DeleteFunc(v["tag"], func(tag string) bool { return tag == "" })
	return q, nil
}

// jittered returns for how long the query waits, so that many do not end at once.
func (q query) jittered() time.Duration { return q.wait + rand.N(q.wait/waitJitter+1) }

// selects reports whether an instance is asked for.
func (q query) selects(in Instance) bool {
	for _, tag := range q.tags {
		if !slices.ContainsFunc(in.Tags, func(t string) bool { return strings.EqualFold(t, tag) }) {
			return false
		}
	}
	return !slices.Contains(q.without, in.health()) && (q.at == "" || q.at == in.address())
}

// parseAll returns the instances among the values of a service that a query selects, each
// once: of several values for one, which several clients have registered, the first of the
// best health. What is at other addresses than the query's is not parsed: there may be thousands.
func parseAll(service string, values []string, q query) []Instance {
	out, seen := []Instance{}, map[[3]string]int{}
	for _, v := range values {
		if !strings.Contains(v, q.at) {
			continue
		}
		in, ok := Parse(service, v)
		if !ok {
			continue
		}
		k := [3]string{in.Host, in.ID, strconv.Itoa(in.Port)}
		switch i, has := seen[k]; {
		case !has:
			seen[k] = len(out)
			out = append(out, in)
		case rank(in.health()) < rank(out[i].health()):
			out[i] = in
		}
	}
	return slices.DeleteFunc(out, func(in Instance) bool { return !q.selects(in) })
}

package sql

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxHosts is how many hosts a DSN may name. Group Replication has at most nine
// members.
const maxHosts = 9

// perHost returns a DSN for each host of a DSN whose address is a list of hosts on
// TCP, user:password@tcp(db1:3306,db2:3306,db3:3306)/database, and any other DSN as
// it is.
func perHost(dsn string) ([]string, error) {
	const form = "want user:password@tcp(host:port,host:port,host:port)/database"
	slash := strings.LastIndexByte(dsn, '/')
	if slash < 1 || dsn[slash-1] != ')' {
		return []string{dsn}, nil
	}
	from := strings.LastIndexByte(dsn[:slash], '(')
	if from < 0 {
		return []string{dsn}, nil
	}
	list := dsn[from+1 : slash-1]
	if !strings.Contains(list, ",") {
		return []string{dsn}, nil
	}
	network := dsn[strings.LastIndexByte(dsn[:from], '@')+1 : from]
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, fmt.Errorf("%w: several hosts need the network tcp; %s", ErrBadDSN, form)
	}
	var hosts, dsns []string
	for i, host := range strings.Split(list, ",") {
		host = strings.TrimSpace(host)
		if _, _, err := net.SplitHostPort(host); err != nil && !strings.ContainsAny(host, ":[]") {
			host = net.JoinHostPort(host, "3306")
		}
		name, port, err := net.SplitHostPort(host)
		switch {
		case err != nil || name == "" || port == "":
			return nil, fmt.Errorf("%w: host %d of several is not host:port; %s", ErrBadDSN, i+1, form)
		case slices.Contains(hosts, host):
			return nil, fmt.Errorf("%w: host %d is in the list twice; %s", ErrBadDSN, i+1, form)
		}
		hosts = append(hosts, host)
		dsns = append(dsns, dsn[:from+1]+host+dsn[slash-1:])
	}
	if len(hosts) > maxHosts {
		return nil, fmt.Errorf("%w: it has %d hosts, at most %d are allowed", ErrBadDSN, len(hosts), maxHosts)
	}
	return dsns, nil
}

// hosts keeps which of the servers of a DSN with several hosts accepts writes. Each
// new connection asks its server again, and a connection to a host that is not the
// writer any more is closed.
type hosts struct {
	names []string
	rest  time.Duration // for which a host that could not be reached is tried last

	mu      sync.Mutex // guards the fields below
	writer  int        // the host that accepted writes at the last look; -1 if none did
	kind    Replication
	advice  []string          // about the settings of the writer
	failed  map[int]time.Time // when a host could not be reached
	watched map[*Pinned]int   // the pinned connections, by their host
}

func newHosts(names []string, rest time.Duration) *hosts {
	return &hosts{names: names, rest: rest, writer: -1, failed: map[int]time.Time{}, watched: map[*Pinned]int{}}
}

// order returns the hosts in the order in which they are to be tried. In a group
// the last primary is the first, because the others would only be asked in vain.
// Galera has no primary: there the first host of the DSN that takes part is the
// writer, so that all processes agree. Those that could not be reached a moment
// ago are the last, because each costs a time-out.
func (h *hosts) order(now time.Time) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	order := make([]int, 0, len(h.names))
	if h.kind == GroupReplication && h.writer >= 0 {
		order = append(order, h.writer)
	}
	for i := range h.names {
		if !slices.Contains(order, i) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch down, other := h.down(a, now), h.down(b, now); {
		case down == other:
			return 0
		case down:
			return 1
		}
		return -1
	})
	return order
}

// down reports whether a host could not be reached a moment ago.
func (h *hosts) down(i int, now time.Time) bool {
	at, failed := h.failed[i]
	return failed && now.Sub(at) < h.rest
}

// unreachable records that no connection to a host could be made.
func (h *hosts) unreachable(i int, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed[i] = now
}

// found records the host that accepts writes, and returns the pinned connections
// to other hosts, which have to end: a statement there is refused or, where the
// host is cut off, is never answered.
func (h *hosts) found(i int, m member) (obsolete []*Pinned) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.failed, i)
	h.writer, h.kind, h.advice = i, m.kind, m.advice(len(h.names))
	for p, host := range h.watched {
		if host != i {
			obsolete = append(obsolete, p)
			delete(h.watched, p)
		}
	}
	return obsolete
}

// isWriter reports whether a host is the one that accepted writes at the last look.
func (h *hosts) isWriter(i int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.writer == i
}

// look returns what the last new connection has found; nothing if h is nil, for a DSN
// with one host.
func (h *hosts) look() (writer string, kind Replication, advice []string) {
	if h == nil {
		return "", Single, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.writer >= 0 {
		writer = h.names[h.writer]
	}
	return writer, h.kind, h.advice
}

// watch makes a pinned connection end when another host becomes the writer; false
// means that one already is.
func (h *hosts) watch(p *Pinned, i int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.writer != i {
		return false
	}
	h.watched[p] = i
	return true
}

func (h *hosts) unwatch(p *Pinned) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watched, p)
}

// errNoWriter reports that no host of the DSN accepts writes at the moment.
var errNoWriter = errors.New("no host accepts writes")

// none returns the error for a DSN none of whose hosts can be used. If each of
// them denies access, that is the reason; if one is set up in a way that could
// lose a term, that is.
func (h *hosts) none(reasons []error) error {
	texts := make([]string, len(reasons))
	denied := 0
	for i, err := range reasons {
		if errors.Is(err, ErrUnsuitable) {
			return err
		}
		if errors.Is(classify(err), ErrRefused) {
			denied++
		}
		texts[i] = err.Error()
	}
	if denied == len(reasons) {
		return reasons[0]
	}
	return fmt.Errorf("%w: %s", errNoWriter, strings.Join(texts, "; "))
}

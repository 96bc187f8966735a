package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
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

// Replication is how the servers of a DSN with several hosts are replicated.
type Replication string

const (
	// Single is a DSN with one host, or one with several that have not answered yet.
	Single Replication = ""
	// GroupReplication is MySQL Group Replication with a single primary.
	GroupReplication Replication = "group replication"
	// Galera is a Galera cluster, which has no primary and whose named locks are
	// known on one node only.
	Galera Replication = "Galera"
)

// The statements about a member, and their columns.
var (
	memberVariables = statement("member/variables.sql")
	memberGroup     = statement("member/group.sql")
	memberGalera    = statement("member/galera.sql")
)

// member is what a server of a DSN with several hosts answers about itself.
type member struct {
	kind      Replication
	variables map[string]string // of both kinds, by their names in lower case
	status    map[string]string // of a Galera node
	group     []groupMember     // of a group
}

// groupMember is a member of a group, as another one sees it.
type groupMember struct{ id, state, role string }

// askMember asks a server about itself, on a new connection.
func askMember(ctx context.Context, conn driver.QueryerContext) (member, error) {
	m := member{variables: map[string]string{}, status: map[string]string{}}
	err := rowsOf(ctx, conn, memberVariables, 2, func(row []string) { m.variables[strings.ToLower(row[0])] = row[1] })
	if err != nil {
		return m, err
	}
	switch {
	case m.variables["wsrep_on"] == "ON":
		m.kind = Galera
		return m, rowsOf(ctx, conn, memberGalera, 2, func(row []string) { m.status[strings.ToLower(row[0])] = row[1] })
	case m.variables["group_replication_group_name"] != "":
		m.kind = GroupReplication
		err := rowsOf(ctx, conn, memberGroup, 3, func(row []string) { m.group = append(m.group, groupMember{row[0], row[1], row[2]}) })
		if RefusedAs(err, errTableDenied) {
			return m, fmt.Errorf("%w: the user needs SELECT on performance_schema.replication_group_members: %w", ErrRefused, err)
		}
		return m, err
	}
	return m, nil
}

// writable returns nil if the server accepts writes that all the others will have,
// otherwise the reason why it does not. The error is ErrUnsuitable if it is set up
// in a way that elects two leaders or loses a term.
//
// hosts is how many the DSN names. Fewer members than a majority of them are not
// enough: they may have been made a group of their own by force, while the others
// are one, too.
func (m member) writable(hosts int) error {
	switch m.kind {
	case GroupReplication:
		return m.isPrimary(hosts)
	case Galera:
		return m.takesPart(hosts)
	}
	return errors.New("it is in no replication group and in no Galera cluster, so that a DSN must not name it beside others")
}

// isPrimary is writable for a member of a group.
func (m member) isPrimary(hosts int) error {
	if mode := m.variables["group_replication_single_primary_mode"]; mode != "ON" {
		return fmt.Errorf("%w: group_replication_single_primary_mode is %s, want ON: with several primaries a fenced write can take effect after the next election", ErrUnsuitable, mode)
	}
	var me groupMember
	reachable := 0
	for _, g := range m.group {
		if g.id == m.variables["server_uuid"] {
			me = g
		}
		if g.state == "ONLINE" || g.state == "RECOVERING" {
			reachable++
		}
	}
	switch {
	case me.state == "":
		return errors.New("it shows no member of a group")
	case me.state != "ONLINE":
		return fmt.Errorf("it is %s in its group, want ONLINE", me.state)
	case 2*reachable <= len(m.group):
		return fmt.Errorf("it has no quorum: it reaches %d of %d members", reachable, len(m.group))
	case 2*reachable <= hosts:
		return fmt.Errorf("its group has %d of the %d hosts in the DSN, want a majority", reachable, hosts)
	case me.role != "PRIMARY":
		return fmt.Errorf("it is a %s of its group", strings.ToLower(orNone(me.role)))
	case m.variables["super_read_only"] != "OFF":
		return errors.New("it is the primary but still read-only")
	}
	return m.mayWrite()
}

// mayWrite returns nil unless an operator has made the server read-only. Some users
// may write then, but another node, if there is one, is what the operator wants.
func (m member) mayWrite() error {
	switch value := m.variables["read_only"]; value {
	case "", "OFF":
		return nil
	default: // ON, and further modes of MariaDB
		return fmt.Errorf("an operator has made it read-only (read_only = %s)", value)
	}
}

// takesPart is writable for a Galera node.
func (m member) takesPart(hosts int) error {
	for _, option := range []string{"pc.ignore_sb", "pc.ignore_quorum"} {
		switch value := optionOf(m.variables["wsrep_provider_options"], option); value {
		case "", "false", "no", "n", "off", "0":
		default: // true, yes, on, 1, and what else a server may take for them
			return fmt.Errorf("%w: %s is %s in wsrep_provider_options: each half of a split cluster would elect a leader", ErrUnsuitable, option, value)
		}
	}
	for _, want := range [][2]string{{"wsrep_ready", "ON"}, {"wsrep_cluster_status", "Primary"}, {"wsrep_local_state", "4"}} {
		if have := m.status[want[0]]; have != want[1] {
			return fmt.Errorf("%s is %s, want %s", want[0], orNone(have), want[1])
		}
	}
	if size, err := strconv.Atoi(m.status["wsrep_cluster_size"]); err != nil || 2*size <= hosts {
		return fmt.Errorf("its cluster has %s of the %d hosts in the DSN, want a majority", orNone(m.status["wsrep_cluster_size"]), hosts)
	}
	return m.mayWrite()
}

// settings returns what sessions with this server set, so that a read after a
// change of the writer does not see less than was written.
func (m member) settings() []setting {
	switch m.kind {
	case GroupReplication:
		if m.variables["group_replication_consistency"] == "EVENTUAL" {
			return []setting{{"group_replication_consistency = 'BEFORE_ON_PRIMARY_FAILOVER'", true}}
		}
	case Galera:
		// 1 reads, 2 UPDATE and DELETE, 4 INSERT: each waits until this node has
		// applied what the cluster had accepted before.
		return []setting{{"wsrep_sync_wait = 7", true}, {"wsrep_dirty_reads = 0", true}}
	}
	return nil
}

// advice returns what an operator should change, one sentence for each setting. hosts
// is how many the DSN names.
func (m member) advice(hosts int) (advice []string) {
	const unnamed = "the DSN names %d of %d members: name all of them, otherwise the majority that is required is not one of the members"
	switch m.kind {
	case GroupReplication:
		if len(m.group) > hosts {
			advice = append(advice, fmt.Sprintf(unnamed, hosts, len(m.group)))
		}
		if m.variables["group_replication_consistency"] == "EVENTUAL" {
			advice = append(advice, "group_replication_consistency is EVENTUAL: want BEFORE_ON_PRIMARY_FAILOVER or more; Conclave sets it for its own sessions only")
		}
		if m.variables["group_replication_unreachable_majority_timeout"] == "0" {
			advice = append(advice, "group_replication_unreachable_majority_timeout is 0: a primary that is cut off holds statements until it is ended by hand; want 5 to 30 (seconds)")
		}
		if len(m.group) < 3 {
			advice = append(advice, fmt.Sprintf("the replication group has %d members: want three or more, otherwise the loss of one stops writes or loses them", len(m.group)))
		}
	case Galera:
		if size, err := strconv.Atoi(m.status["wsrep_cluster_size"]); err == nil && size > hosts {
			advice = append(advice, fmt.Sprintf(unnamed, hosts, size))
		}
		switch size := m.status["wsrep_cluster_size"]; size {
		case "1", "2":
			advice = append(advice, fmt.Sprintf("the Galera cluster has %s nodes: want three or more, otherwise the loss of one stops writes or loses them", size))
		}
	}
	return advice
}

// optionOf returns the value of an option in a list "name = value; ...".
func optionOf(list, name string) string {
	for entry := range strings.SplitSeq(list, ";") {
		if key, value, _ := strings.Cut(entry, "="); strings.TrimSpace(key) == name {
			return strings.ToLower(strings.TrimSpace(value))
		}
	}
	return ""
}

func orNone(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// rowsOf runs a query on a connection of the driver and calls each for every row.
func rowsOf(ctx context.Context, conn driver.QueryerContext, query string, columns int, each func(row []string)) error {
	rows, err := conn.QueryContext(ctx, query, nil)
	if err != nil {
		return err
	}
	defer rows.Close() // its error is that of Next
	values := make([]driver.Value, columns)
	if have := len(rows.Columns()); have != columns {
		return fmt.Errorf("%w: %d columns instead of %d", mysql.ErrMalformPkt, have, columns)
	}
	for {
		switch err := rows.Next(values); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		row := make([]string, columns)
		for i, v := range values {
			switch v := v.(type) {
			case []byte:
				row[i] = string(v)
			case string:
				row[i] = v
			}
		}
		each(row)
	}
}

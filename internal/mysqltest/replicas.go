package mysqltest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// GroupReplication is three MySQL servers in one replication group with a single
// primary.
const GroupReplication Kind = "group"

// Galera is three MariaDB servers in one Galera cluster.
const Galera Kind = "galera"

// Replicated returns the kinds of replicated servers.
func Replicated() []Kind { return []Kind{GroupReplication, Galera} }

// OnReplicas runs a test on each kind of replicated servers, both at the same time.
// Nothing may follow it, as with AtOnce.
func OnReplicas(t *testing.T, test func(t *testing.T, r *Replicas)) {
	for _, kind := range Replicated() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, NewReplicas(t, kind))
		})
	}
}

// Replicas are three replicated servers, shared by the tests of this binary. Each
// test gets a database of its own.
type Replicas struct {
	Kind    Kind
	Members [3]*Replica
	DSN     string // of the test's database, with all three hosts

	network string // between the servers; clients use another one
}

// String returns what the servers are, for a message.
func (r *Replicas) String() string { return "three servers of image " + r.Members[0].container.image }

// Replica is one of the servers. It has no DSN of its own.
type Replica struct {
	*Server
	Addr string // on loopback

	name string // for the other servers

	mu    sync.Mutex
	start func() // starts it again after it was killed; nil if it was not
}

// NewReplicas returns three replicated servers, all of them members, with a database
// for the test. It skips or fails the test as New does.
func NewReplicas(t testing.TB, kind Kind) *Replicas {
	t.Helper()
	shared := find(t, kind, replicas[kind])
	shared.Settle(t)
	r := &Replicas{Kind: kind, Members: shared.Members, network: shared.network}
	name := fmt.Sprintf("conclave_test_%d_%d", os.Getpid(), databases.Add(1))
	addrs := make([]string, len(r.Members))
	for i, m := range r.Members {
		addrs[i] = m.Addr
	}
	r.DSN = fmt.Sprintf("root:%s@tcp(%s)/%s", password, strings.Join(addrs, ","), name)
	r.Primary(t).Exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		r.Settle(t)
		r.Primary(t).Exec(t, "DROP DATABASE "+name)
	})
	return r
}

// Primary returns the server that a DSN with all hosts uses while all are members:
// the primary of a group, the first of a cluster. A member that its group has expelled,
// because a busy machine kept it silent for seconds, is told to join again.
func (r *Replicas) Primary(t testing.TB) *Replica {
	t.Helper()
	var primary *Replica
	require.Eventually(t, func() bool {
		for _, m := range r.Members {
			if m.role() == "ONLINE PRIMARY 3" || r.Kind == Galera && m.role() == "ONLINE NODE 3" {
				primary = m
				return true
			}
		}
		if r.Kind == GroupReplication {
			r.rejoin()
		}
		return false
	}, startTimeout, 200*time.Millisecond, "a primary of three members")
	return primary
}

// Secondaries returns the others.
func (r *Replicas) Secondaries(t testing.TB) []*Replica {
	t.Helper()
	primary := r.Primary(t)
	return slices.DeleteFunc(slices.Clone(r.Members[:]), func(m *Replica) bool { return m == primary })
}

// Settle starts the servers that were killed, and waits until all are members. Those
// that have left a group are told to join again.
func (r *Replicas) Settle(t testing.TB) {
	t.Helper()
	for _, m := range r.Members {
		m.mu.Lock()
		start := m.start
		m.mu.Unlock()
		if start != nil {
			start()
		}
	}
	var seen string
	require.Eventually(t, func() bool {
		seen = ""
		members := 0
		for _, m := range r.Members {
			role := m.role()
			seen += m.Addr + " is " + role + "; "
			if strings.HasPrefix(role, "ONLINE ") && strings.HasSuffix(role, " 3") {
				members++
			}
		}
		if members == len(r.Members) {
			return true
		}
		if r.Kind == GroupReplication {
			r.rejoin()
		}
		return false
	}, 2*time.Minute, 200*time.Millisecond, "three members: %s", &lazy{&seen})
}

// lazy prints what its string is when the message is printed.
type lazy struct{ s *string }

func (l *lazy) String() string { return *l.s }

// rejoin starts the replication of the servers that are not in the group, unless no
// server is: a group that was lost is formed again by the first.
func (r *Replicas) rejoin() {
	var out []*Replica
	in := 0
	for _, m := range r.Members {
		switch role := m.role(); {
		case strings.HasPrefix(role, "OFFLINE"), strings.HasPrefix(role, "ERROR"):
			out = append(out, m)
		default:
			in++ // or it does not answer
		}
	}
	if in == 0 {
		return // the test has to say which member has the newest state
	}
	for _, m := range out {
		_ = m.try("STOP GROUP_REPLICATION")
		_ = m.try("START GROUP_REPLICATION")
	}
}

// role returns a member's own state and role, and how many members it sees as
// ONLINE; "" if it does not answer.
func (m *Replica) role() string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var role string
	if m.Kind == Galera {
		status := map[string]string{}
		for _, name := range []string{"wsrep_ready", "wsrep_cluster_status", "wsrep_local_state", "wsrep_cluster_size"} {
			var value string
			if err := m.root.QueryRowContext(ctx, "SHOW STATUS LIKE '"+name+"'").Scan(&role, &value); err != nil {
				return ""
			}
			status[name] = value
		}
		if status["wsrep_ready"] != "ON" || status["wsrep_cluster_status"] != "Primary" || status["wsrep_local_state"] != "4" {
			return fmt.Sprint("NOT READY ", status)
		}
		return "ONLINE NODE " + status["wsrep_cluster_size"]
	}
	err := m.root.QueryRowContext(ctx, `SELECT CONCAT(me.MEMBER_STATE, ' ', me.MEMBER_ROLE, ' ',
		(SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'))
		FROM performance_schema.replication_group_members me WHERE me.MEMBER_ID = @@server_uuid`).Scan(&role)
	if err != nil {
		return ""
	}
	return role
}

// UUID returns the identity of a MySQL server.
func (m *Replica) UUID(t testing.TB) (uuid string) {
	t.Helper()
	require.NoError(t, m.root.QueryRow("SELECT @@server_uuid").Scan(&uuid))
	return uuid
}

// Kill kills the server's process with SIGKILL. It does not start again until start
// is called, or Settle, or the test ends.
func (m *Replica) Kill(t testing.TB) (start func()) {
	t.Helper()
	if err := m.container.sh("touch /tmp/hold; " + slay); err != nil {
		t.Errorf("kill %s: %v", m.Addr, err) // this may be another goroutine than the test's
	}
	start = sync.OnceFunc(func() {
		if err := m.container.sh("rm -f /tmp/hold"); err != nil {
			panic("mysqltest: cannot start a killed server: " + err.Error()) // later tests would hang
		}
	})
	m.mu.Lock()
	m.start = start
	m.mu.Unlock()
	t.Cleanup(start)
	return start
}

// Cut separates the server from the others. Clients still reach it.
func (r *Replicas) Cut(t testing.TB, m *Replica) (mend func()) {
	t.Helper()
	require.NoError(t, m.container.leave(r.network))
	mend = sync.OnceFunc(func() {
		if err := m.container.join(r.network, m.name); err != nil {
			panic("mysqltest: cannot connect a server again: " + err.Error()) // later tests would hang
		}
	})
	t.Cleanup(mend)
	return mend
}

// Force makes a server that the others do not reach accept writes without them, as an
// operator may do by mistake. Restore takes it back. A member of a group must be waiting for
// the others, and not have left the group.
func (r *Replicas) Force(t testing.TB, m *Replica) {
	t.Helper()
	if r.Kind == GroupReplication {
		r.forceGroup(t, m)
		return
	}
	var last string
	require.Eventually(t, func() bool {
		if m.role() != "ONLINE NODE 1" {
			last = fmt.Sprintf("%q: %v", m.role(), m.try("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'"))
			return false
		}
		return true
	}, time.Minute, 500*time.Millisecond, "a node that is writable alone: %s", &lazy{&last})
}

// forceGroup makes a member the only one of its group. It calls itself for that, by the
// name that is lost with its network.
func (r *Replicas) forceGroup(t testing.TB, m *Replica) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.HasSuffix(m.role(), " 1") }, time.Minute, 200*time.Millisecond, "a member that does not reach the others")
	require.NoError(t, m.container.sh("echo 127.0.0.1 "+m.name+" >>/etc/hosts"))
	m.Exec(t, "SET GLOBAL group_replication_force_members = ?", m.name+":33061")
	m.Exec(t, "SET GLOBAL group_replication_force_members = ''")
	require.Eventually(t, func() bool { return m.role() == "ONLINE PRIMARY 1" }, time.Minute, 200*time.Millisecond, "a primary of a group of one")
}

// Restore gives a server that has gone its own way the data of the others.
func (r *Replicas) Restore(t testing.TB, m *Replica) {
	t.Helper()
	m.Kill(t)
	require.NoError(t, m.container.sh("rm -rf /var/lib/mysql/*"))
	m.start()
	require.NoError(t, ready(m.root, startTimeout))
	if r.Kind == GroupReplication {
		require.NoError(t, m.container.sh("sed '/^127.0.0.1 "+m.name+"$/d' /etc/hosts >/tmp/hosts && cat /tmp/hosts >/etc/hosts"))
		require.NoError(t, m.session(groupEach))
		require.NoError(t, m.session(groupOther))
	}
	r.Settle(t)
}

// Switch makes another member the primary, on purpose. A group refuses it while it is
// expelling a member.
func (r *Replicas) Switch(t testing.TB, to *Replica) {
	t.Helper()
	uuid := to.UUID(t)
	ask := func() error { return to.try("SELECT group_replication_set_as_primary(?)", uuid) }
	if ask() == nil {
		return
	}
	require.Eventually(t, func() bool {
		r.rejoin()
		return ask() == nil
	}, time.Minute, time.Second, "the group makes %s its primary", to.Addr)
}

// Database returns the name of the test's database.
func (r *Replicas) Database() string { return r.DSN[strings.LastIndexByte(r.DSN, '/')+1:] }

// OnlyDSN returns the DSN of the test's database on one server.
func (r *Replicas) OnlyDSN(m *Replica) string {
	return fmt.Sprintf("root:%s@tcp(%s)/%s", password, m.Addr, r.Database())
}

// Value returns the first column of the first row; "" if there is none.
func (m *Replica) Value(query string) (value string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = m.root.QueryRowContext(ctx, query).Scan(&value)
	return value
}

// WaitForQuorum makes members of a group that have lost the others wait for them
// instead of leaving it, and the others wait for them, until the test ends.
func (r *Replicas) WaitForQuorum(t testing.TB) {
	t.Helper()
	if r.Kind != GroupReplication {
		return
	}
	set := func(unreachable, expel int) {
		for _, m := range r.Members {
			m.Exec(t, "SET GLOBAL group_replication_unreachable_majority_timeout = ?", unreachable)
			m.Exec(t, "SET GLOBAL group_replication_member_expel_timeout = ?", expel)
		}
	}
	set(0, 60)
	t.Cleanup(func() { r.Settle(t); set(unreachableTimeout, 0) })
}

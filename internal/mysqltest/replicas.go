package mysqltest

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// GroupReplication is three MySQL servers in one replication group with a single
// primary.
const GroupReplication Kind = "group"

// Replicas are three replicated servers, shared by the tests of this binary. Each
// test gets a database of its own.
type Replicas struct {
	Kind    Kind
	Members [3]*Replica
	DSN     string // of the test's database, with all three hosts

	network string // between the servers; clients use another one
}

// Replica is one of the servers.
type Replica struct {
	Addr string // on loopback

	c    *container
	root *stdsql.DB
	name string // for the other servers
}

// replicas are the servers of this binary by kind.
var replicas = struct {
	sync.Mutex
	found map[Kind]*Replicas
	why   map[Kind]error
}{found: map[Kind]*Replicas{}, why: map[Kind]error{}}

// NewReplicas returns three replicated servers, all of them members, with a database
// for the test. It skips or fails the test as New does.
func NewReplicas(t testing.TB, kind Kind) *Replicas {
	t.Helper()
	if !Wanted() {
		t.Skipf("%s is not requested: set TEST_ALL=1 to run this test on real servers", kind)
	}
	replicas.Lock()
	defer replicas.Unlock()
	if replicas.found[kind] == nil && replicas.why[kind] == nil {
		began := time.Now()
		r, err := startReplicas(kind)
		if err != nil {
			replicas.why[kind] = err
		} else {
			replicas.found[kind] = r
			fmt.Printf("mysqltest: %s is three servers of image %s, ready after %.1f s\n", kind, r.Members[0].c.image, time.Since(began).Seconds())
		}
	}
	if err := replicas.why[kind]; err != nil {
		missing(t, fmt.Sprintf("no %s here: %v", kind, err))
	}
	shared := replicas.found[kind]
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

// Primary returns the server that the others name as their primary.
func (r *Replicas) Primary(t testing.TB) *Replica {
	t.Helper()
	var primary *Replica
	require.Eventually(t, func() bool {
		for _, m := range r.Members {
			if m.role() == "ONLINE PRIMARY 3" {
				primary = m
				return true
			}
		}
		return false
	}, startTimeout, 200*time.Millisecond, "a primary of three members")
	return primary
}

// Secondaries returns the others.
func (r *Replicas) Secondaries(t testing.TB) (others []*Replica) {
	t.Helper()
	primary := r.Primary(t)
	for _, m := range r.Members {
		if m != primary {
			others = append(others, m)
		}
	}
	return others
}

// Settle waits until all servers are members. Those that have left are told to join
// again.
func (r *Replicas) Settle(t testing.TB) {
	t.Helper()
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
		r.rejoin()
		return false
	}, 2*time.Minute, 200*time.Millisecond, "three members: %s", &lazy{&seen})
	// What was committed before is there: a test begins with nothing of another one.
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
	err := m.root.QueryRowContext(ctx, `SELECT CONCAT(me.MEMBER_STATE, ' ', me.MEMBER_ROLE, ' ',
		(SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'))
		FROM performance_schema.replication_group_members me WHERE me.MEMBER_ID = @@server_uuid`).Scan(&role)
	if err != nil {
		return ""
	}
	return role
}

// try runs a statement as the administrator.
func (m *Replica) try(statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := m.root.ExecContext(ctx, statement, args...)
	return err
}

// Exec runs a statement as the administrator of this server.
func (m *Replica) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	require.NoError(t, m.try(statement, args...), statement)
}

// UUID returns the identity of a MySQL server.
func (m *Replica) UUID(t testing.TB) (uuid string) {
	t.Helper()
	require.NoError(t, m.root.QueryRow("SELECT @@server_uuid").Scan(&uuid))
	return uuid
}

// Kill kills the server's process with SIGKILL. It does not start again until start
// is called, or the test ends.
func (m *Replica) Kill(t testing.TB) (start func()) {
	t.Helper()
	require.NoError(t, m.c.sh("touch /tmp/hold; "+slay))
	start = sync.OnceFunc(func() {
		if err := m.c.sh("rm -f /tmp/hold"); err != nil {
			panic("mysqltest: cannot start a killed server: " + err.Error()) // later tests would hang
		}
	})
	t.Cleanup(start)
	return start
}

// Pause suspends the server while its sockets stay open.
func (m *Replica) Pause(t testing.TB) (resume func()) {
	t.Helper()
	resume, err := m.c.pause()
	require.NoError(t, err)
	t.Cleanup(resume)
	return resume
}

// Cut separates the server from the others. Clients still reach it.
func (r *Replicas) Cut(t testing.TB, m *Replica) (mend func()) {
	t.Helper()
	require.NoError(t, m.c.leave(r.network))
	mend = sync.OnceFunc(func() {
		if err := m.c.join(r.network, m.name); err != nil {
			panic("mysqltest: cannot connect a server again: " + err.Error()) // later tests would hang
		}
	})
	t.Cleanup(mend)
	return mend
}

// Switch makes another member the primary, on purpose.
func (r *Replicas) Switch(t testing.TB, to *Replica) {
	t.Helper()
	to.Exec(t, "SELECT group_replication_set_as_primary(?)", to.UUID(t))
}

// connect opens the administrator's pool and waits for the server.
func (m *Replica) connect() error {
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net, config.Addr = "root", password, "tcp", m.Addr
	var err error
	if m.root, err = open(config); err != nil {
		return err
	}
	m.root.SetConnMaxLifetime(10 * time.Second)
	return ready(m.root, startTimeout)
}

package termcas_test

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/fence"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// What operators do to the server under an election of two nodes, each with an
// application that writes under the fence all the time.

// operated is such an election. Its user is no administrator.
type operated struct {
	*electortest.Cluster
	*bench
	t        *testing.T
	server   *mysqltest.Server
	database string
	ca       string // the file with the CA of the DSN; empty without TLS
	log      logs   // of both nodes
	shop     *stdsql.DB
	reject   bool          // the application's driver rejects read-only servers
	shared   bool          // each node has a Shared with this election
	password atomic.Value  // what the nodes and the application log in with
	undo     func()        // what the act has left for later
	overlaps func() string // ends the watch, and returns who has led beside whom

	mu      sync.Mutex
	refused map[string]bool // the errors of fenced writes, without their numbers
}

// operatorsAct is what an operator does.
type operatorsAct struct {
	name    string
	lease   time.Duration     // of the nodes; 2.5 s if it is 0
	tls     bool              // the DSN names the server's CA
	prepare func(o *operated) // before the tables are created
	do      func(o *operated) // returns when it is done
	undo    func(o *operated) // nil if there is nothing to undo
	shared  bool              // each node has a Shared with this election
	keeps   bool              // the leader keeps its term, and works on
	warns   string            // what both nodes log meanwhile, as a WARN
	status  string            // what Status of both nodes shows meanwhile
	fence   string            // what the application's writes get meanwhile
}

var operatorsActs = []operatorsAct{
	{name: "kills every connection", do: func(o *operated) { o.kill() }, keeps: true},
	{name: "has another sql_mode, collation and wait_timeout", lease: 6 * time.Second, prepare: func(o *operated) {
		mode := "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'"
		if o.server.Kind == mysqltest.MariaDB {
			mode = "'ORACLE,EMPTY_STRING_IS_NULL,ANSI_QUOTES,NO_BACKSLASH_ESCAPES'"
		}
		for name, value := range map[string]string{"sql_mode": mode, "collation_server": "'utf8mb4_turkish_ci'", "wait_timeout": "1", "interactive_timeout": "1"} {
			o.server.Exec(o.t, "SET GLOBAL "+name+" = "+value)
			o.t.Cleanup(func() { o.server.Exec(o.t, "SET GLOBAL "+name+" = DEFAULT") })
		}
		o.t.Cleanup(o.server.Reconnect)
		o.server.Exec(o.t, "ALTER DATABASE "+o.database+" COLLATE utf8mb4_turkish_ci")
	}, do: func(o *operated) { o.kill() }, keeps: true},
	{name: "makes the server read-only", do: func(o *operated) { readOnly(o.t, o.server, true) },
		undo:  func(o *operated) { readOnly(o.t, o.server, false) },
		warns: "this server is read-only", status: "this server is read-only", fence: "1290"},
	{name: "makes the server of a Shared read-only", shared: true, do: func(o *operated) { readOnly(o.t, o.server, true) },
		undo:  func(o *operated) { readOnly(o.t, o.server, false) },
		warns: "this server is read-only", status: "this server is read-only", fence: "1290"},
	{name: "lets too few connect", do: func(o *operated) {
		o.server.Reconnect() // an idle connection of the administrator's pool would end meanwhile, and make room
		root := o.administrator()
		_, err := root.ExecContext(context.Background(), "SET GLOBAL max_connections = 12")
		require.NoError(o.t, err)
		o.t.Cleanup(func() { _, _ = root.ExecContext(context.Background(), "SET GLOBAL max_connections = 151") })
		filled := 0
		o.Until("the test to have every connection", func() bool {
			db, err := stdsql.Open("mysql", o.server.DSN)
			require.NoError(o.t, err)
			if db.Ping() == nil {
				filled++
				o.t.Cleanup(func() { db.Close() })
			} else {
				db.Close()
				o.killOn(root)
			}
			return filled == 12 // and root: one more than others can have, which is an administrator's
		})
		o.undo = func() {
			_, err := root.ExecContext(context.Background(), "SET GLOBAL max_connections = 151")
			require.NoError(o.t, err)
		}
	}, undo: func(o *operated) { o.undo() }, warns: "allow more connections", status: "allow more connections", fence: "1040"},
	{name: "backs up under FLUSH TABLES WITH READ LOCK", do: func(o *operated) {
		root := o.administrator()
		_, err := root.ExecContext(context.Background(), "FLUSH TABLES WITH READ LOCK")
		require.NoError(o.t, err)
		o.undo = func() {
			_, err := root.ExecContext(context.Background(), "UNLOCK TABLES")
			require.NoError(o.t, err)
		}
	}, undo: func(o *operated) { o.undo() }, warns: "the election's statements wait", fence: "deadline exceeded"},
	{name: "restarts the server", lease: 30 * time.Second, do: func(o *operated) { o.server.Reboot(o.t) }, keeps: true},
	{name: "renews the certificate, the CA first", tls: true, do: func(o *operated) {
		old, err := os.ReadFile(o.ca)
		require.NoError(o.t, err)
		require.NoError(o.t, os.WriteFile(o.ca, append(old, o.server.RenewCertificate(o.t)...), 0o600))
		o.kill()
	}, keeps: true},
	{name: "renews the certificate, and the CA too late", tls: true, do: func(o *operated) {
		next := o.server.RenewCertificate(o.t)
		o.undo = func() { require.NoError(o.t, os.WriteFile(o.ca, next, 0o600)) }
		o.kill()
	}, undo: func(o *operated) { o.undo() },
		warns: "certificate of the database is not accepted", status: "certificate of the database is not accepted", fence: "certificate"},
	{name: "changes the password, which the nodes learn", do: func(o *operated) {
		o.server.Exec(o.t, "ALTER USER 'plain'@'%' IDENTIFIED BY 'second'")
		o.password.Store("second")
		o.kill()
	}, keeps: true},
	{name: "changes the password, which the nodes learn too late", do: func(o *operated) {
		o.server.Exec(o.t, "ALTER USER 'plain'@'%' IDENTIFIED BY 'second'")
		o.kill()
	}, undo: func(o *operated) { o.password.Store("second") },
		warns: "correct the user or the password", status: "correct the user or the password", fence: "1045"},
}

// readOnly makes a server refuse writes, also of administrators where it can.
func readOnly(t *testing.T, s *mysqltest.Server, on bool) {
	name := "read_only" // OFF ends super_read_only, too
	if on && s.Kind == mysqltest.MySQL {
		name = "super_read_only"
	}
	s.Exec(t, fmt.Sprintf("SET GLOBAL %s = %t", name, on))
}

// TestOperators_Acts plays each act, and checks what both nodes show and log while it
// lasts, that no two lead at the same time, that no write of an older term comes after one
// of a newer one, and that a killed leader is followed afterwards.
func TestOperators_Acts(t *testing.T) {
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
		s.NeedsContainer(t)
		for _, a := range operatorsActs {
			t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) { operate(t, s, a).play(a) })
		}
	})
}

// operate starts the election.
func operate(t *testing.T, s *mysqltest.Server, a operatorsAct) *operated {
	config, err := mysql.ParseDSN(s.DSN)
	require.NoError(t, err)
	o := &operated{t: t, server: s, shared: a.shared, database: config.DBName, refused: map[string]bool{}}
	s.Exec(t, "CREATE USER 'plain'@'%' IDENTIFIED BY 'first'")
	t.Cleanup(func() { s.Exec(t, "DROP USER 'plain'@'%'") })
	s.Exec(t, "GRANT ALL ON "+o.database+".* TO 'plain'@'%'")
	if a.prepare != nil {
		a.prepare(o)
	}
	config.User, config.Passwd = "plain", "in no DSN"
	dsn := config.FormatDSN()
	if a.tls {
		o.ca = s.CA(t)
		dsn += map[bool]string{false: "?", true: "&"}[strings.Contains(dsn, "?")] + "tlsCA=" + o.ca
	}
	o.start(dsn, a.lease, new(net.Dialer).DialContext)
	return o
}

// start starts the nodes and their application, which connect through dial.
func (o *operated) start(dsn string, lease time.Duration, dial dialer) {
	t := o.t
	o.password.Store("first")
	password := func(context.Context) (string, error) { return o.password.Load().(string), nil }
	lock := conclavesql.Lock{DataCenter: "test", Name: t.Name()}
	db, err := conclavesql.Open(dsn, conclavesql.Options{Dial: dial, Deadline: 5 * time.Second, Password: password})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	require.NoError(t, db.Migrate(t.Context(), lock))
	o.bench = &bench{db: db, lock: lock, dsn: dsn, shared: o.shared}
	o.World = electortest.World{Dial: dial, Lease: max(lease, 2500*time.Millisecond), Strategy: func(t testing.TB, spec electortest.NodeSpec) elector.Strategy {
		db, err := conclavesql.Open(dsn, conclavesql.Options{Dial: spec.Cable.Dial, Deadline: spec.Beat / 2, Password: password})
		require.NoError(t, err)
		return o.strategy(t, termcas.Config{DB: db, Lock: lock, Rand: spec.Rand, Ask: spec.Ask, Logger: o.logger(spec.ID.Name)})
	}}

	_, err = db.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS work (id bigint AUTO_INCREMENT PRIMARY KEY, election varchar(100), term bigint unsigned, owner varchar(100)) ENGINE=InnoDB")
	require.NoError(t, err)
	o.shop, err = conclavesql.OpenPool(dsn, func(c *mysql.Config) {
		c.RejectReadOnly = o.reject
		c.DialFunc = dial
		require.NoError(t, c.Apply(mysql.BeforeConnect(func(ctx context.Context, c *mysql.Config) (err error) {
			c.Passwd, err = password(ctx)
			return err
		})))
	})
	require.NoError(t, err)
	t.Cleanup(func() { o.shop.Close() })
	o.Cluster = electortest.NewCluster(t, o.World, 2, func(c *elector.Config) {
		c.Logger, c.Lead = o.logger(c.ID.Name), o.work
	})
	o.overlaps = o.watch()
	t.Cleanup(func() { o.Stop(); o.overlaps() })
}

// waitForWaiters waits until the other node waits for the leader's witness.
func (o *operated) waitForWaiters(leader *electortest.Node) {
	if !o.shared {
		waitForWaiters(o.Cluster, leader)
		return
	}
	root, err := stdsql.Open("mysql", o.server.DSN)
	require.NoError(o.t, err)
	defer root.Close()
	o.Until("the other process to wait", func() (waits bool) {
		require.NoError(o.t, root.QueryRow("SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE user = 'plain' AND state = 'User lock'").Scan(&waits))
		return waits
	})
}

// logger returns the logger of a node.
func (o *operated) logger(node string) *slog.Logger {
	return slog.New(slog.NewTextHandler(&o.log, nil)).With("node", node)
}

// warned reports whether each node has logged a WARN with this text.
func (o *operated) warned(text string) bool {
	o.log.mu.Lock()
	defer o.log.mu.Unlock()
	nodes := map[string]bool{}
	for line := range strings.Lines(o.log.text.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, text) {
			for _, n := range []string{"node=n1", "node=n2"} {
				nodes[n] = nodes[n] || strings.Contains(line, n)
			}
		}
	}
	return nodes["node=n1"] && nodes["node=n2"]
}

// work writes under the fence until the leadership ends.
func (o *operated) work(ctx context.Context, term elector.Term) error {
	token := fence.New(o.lock, term)
	for ctx.Err() == nil {
		write, done := context.WithTimeout(context.Background(), time.Second)
		_, err := fence.Exec(write, o.shop, token, "INSERT INTO work (election, term, owner) SELECT ?, fence.term, fence.owner FROM {fence}", o.lock.Name)
		done()
		if err != nil {
			o.mu.Lock()
			o.refused[err.Error()] = true
			o.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// wasRefused reports whether a write got an error with this text.
func (o *operated) wasRefused(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for err := range o.refused {
		if strings.Contains(err, text) {
			return true
		}
	}
	return false
}

// watch looks for two nodes that believe they lead at the same time: one does so before
// and after the other does. The returned function ends that, and returns what was seen.
func (o *operated) watch() (end func() string) {
	stop, ended, seen := make(chan struct{}), make(chan struct{}), ""
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			nodes := o.Nodes()
			for i, n := range nodes {
				before, leads := n.Leading()
				if !leads {
					continue
				}
				for j, other := range nodes {
					if term, both := other.Leading(); i != j && both {
						if after, still := n.Leading(); still && after.Number == before.Number {
							seen = fmt.Sprintf("%s leads term %d, and %s term %d", n.ID, after.Number, other.ID, term.Number)
						}
					}
				}
			}
		}
	}()
	return sync.OnceValue(func() string { close(stop); <-ended; return seen })
}

// administrator returns a connection of the administrator.
func (o *operated) administrator() *stdsql.Conn {
	db, err := stdsql.Open("mysql", o.server.DSN)
	require.NoError(o.t, err)
	o.t.Cleanup(func() { db.Close() })
	conn, err := db.Conn(context.Background())
	require.NoError(o.t, err)
	o.t.Cleanup(func() { conn.Close() })
	return conn
}

// kill ends the connections of the nodes and of their application.
func (o *operated) kill() {
	root := o.administrator()
	o.killOn(root)
	require.NoError(o.t, root.Close())
}

func (o *operated) killOn(root *stdsql.Conn) {
	rows, err := root.QueryContext(context.Background(), "SELECT id FROM information_schema.processlist WHERE user = 'plain'")
	require.NoError(o.t, err)
	defer rows.Close() // closed at its end already: the connection is free
	var ids []int64
	for rows.Next() {
		var id int64
		require.NoError(o.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(o.t, rows.Err())
	for _, id := range ids {
		_, _ = root.ExecContext(context.Background(), fmt.Sprint("KILL ", id)) // it may have ended
	}
}

// written returns how many writes the server has.
func (o *operated) written() int { return o.count("TRUE") }

// count returns how many writes on the server fulfil a condition.
func (o *operated) count(condition string, args ...any) (n int) {
	db, err := stdsql.Open("mysql", o.server.DSN)
	require.NoError(o.t, err)
	defer db.Close()
	work := o.database + ".work"
	require.NoError(o.t, db.QueryRow("SELECT COUNT(*) FROM "+work+" work WHERE work.election = ? AND "+strings.ReplaceAll(condition, "FROM work", "FROM "+work),
		append([]any{o.lock.Name}, args...)...).Scan(&n))
	return n
}

// shows reports whether Status of both nodes has an error with this text.
func (o *operated) shows(text string) bool {
	for _, n := range o.Nodes() {
		if err := n.Status().Err; err == nil || !strings.Contains(err.Error(), text) {
			return false
		}
	}
	return true
}

func (o *operated) play(a operatorsAct) {
	t := o.t
	leader, term := o.Leader()
	o.waitForWaiters(leader)
	o.Until("a write", func() bool { return o.written() > 0 })

	undo := sync.OnceFunc(func() {
		if a.undo != nil {
			a.undo(o)
		}
	})
	t.Cleanup(undo) // also if the test ends before
	a.do(o)
	if a.status != "" {
		o.Until("the status", func() bool { return o.shows(a.status) })
		t.Log(o.Nodes()[0].Status(), " / ", o.Nodes()[1].Status())
	}
	if a.warns != "" {
		o.Until("the WARN", func() bool { return o.warned(a.warns) })
	}
	if a.fence != "" {
		o.Until("a refused write", func() bool { return o.wasRefused(a.fence) })
	}
	if !a.keeps {
		o.Until("the end of the term", func() bool { return leader.Status().State == elector.Following })
	}
	undo()
	ended := time.Now()
	if a.keeps {
		later := time.NewTimer(5 * time.Second) // two beats at least, and more than any limit that the act has set
		defer later.Stop()
		o.Until("the leader to act", func() bool { _, leading := leader.Leading(); return leading })
		<-later.C
		o.Until("the leader to act later", func() bool { _, leading := leader.Leading(); return leading })
		now, _ := leader.Leading()
		assert.Equal(t, term.Number, now.Number)
		assert.Len(t, o.Ledger(), 1)
	} else {
		leader, term = o.LeaderAfter(term.Number)
	}
	t.Logf("%s %s: a leader after %v", o.server.Kind, a.name, time.Since(ended))
	o.goesOn(leader, term)
}

// goesOn checks that the leader works, that the other node follows it at once if it is
// killed, and what was written.
func (o *operated) goesOn(leader *electortest.Node, term elector.Term) {
	t := o.t
	o.waitForWaiters(leader)
	before := o.written()
	o.Until("more writes", func() bool { return o.written() > before })
	o.Until("no more errors", func() bool { return leader.Status().Err == nil && o.Others(leader)[0].Status().Err == nil })
	o.report()
	assert.Empty(t, o.overlaps(), "two leaders at the same time")
	killed := time.Now()
	leader.Kill() // for a moment it believes that it leads
	_, next := o.LeaderAfter(term.Number)
	assert.Less(t, time.Since(killed), o.soon())
	assert.Equal(t, elector.CauseKilled, next.Cause)
	_, err := fence.Exec(t.Context(), o.shop, fence.New(o.lock, term), "INSERT INTO work (election, term, owner) SELECT ?, fence.term, fence.owner FROM {fence}", o.lock.Name)
	require.ErrorIs(t, err, fence.ErrTermEnded)
	o.Until("a write of the next term", func() bool { return o.count("term = ?", next.Number) > 0 })

	o.Stop()
	assert.Zero(t, o.count("EXISTS (SELECT 1 FROM work later WHERE later.election = work.election AND later.id > work.id AND later.term < work.term)"), "a write of an old term")
	assert.Zero(t, o.count("EXISTS (SELECT 1 FROM work other WHERE other.election = work.election AND other.term = work.term AND other.owner <> work.owner)"), "a term with two owners")
}

// report logs what the nodes have warned of, and what the application's writes got.
func (o *operated) report() {
	o.mu.Lock()
	defer o.mu.Unlock()
	kinds := map[string]bool{}
	for err := range o.refused {
		kinds[regexp.MustCompile(`[0-9]{5,}`).ReplaceAllString(err, "N")] = true
	}
	for err := range kinds {
		o.t.Log("a write: ", err)
	}
	seen := map[string]bool{}
	o.log.mu.Lock()
	defer o.log.mu.Unlock()
	for line := range strings.Lines(o.log.text.String()) {
		if _, text, warn := strings.Cut(line, "level=WARN "); warn && !seen[text] {
			seen[text] = true
			o.t.Log("WARN", strings.TrimSpace(text))
		}
	}
}

// TestOperators_PromoteAReplica makes a primary read-only and promotes its replica, once
// everything is there, and leads the clients to it: by an address that moves, as that of a
// DNS name, and by HAProxy, which asks both servers whether they are read-only.
func TestOperators_PromoteAReplica(t *testing.T) {
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
		s.NeedsContainer(t)
		other := mysqltest.NewAlone(t, s.Kind)
		other.Exec(t, "SET GLOBAL server_id = 2")
		t.Cleanup(func() { promote(t, s, nil) })
		t.Run("address", func(t *testing.T) {
			var now atomic.Pointer[mysqltest.Server]
			now.Store(s)
			promoted(t, s, other, false, func() string { return addr(t, s) }, func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr(t, now.Load()))
			}, func() { now.Store(other) })
		})
		t.Run("Shared", func(t *testing.T) {
			var now atomic.Pointer[mysqltest.Server]
			now.Store(other)
			promoted(t, other, s, true, func() string { return addr(t, other) }, func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr(t, now.Load()))
			}, func() { now.Store(s) })
		})
		t.Run("HAProxy", func(t *testing.T) {
			promoted(t, other, s, false, func() string { return haproxy(t, other, s) }, new(net.Dialer).DialContext, func() {})
		})
	})
}

// addr returns the address of a server.
func addr(t *testing.T, s *mysqltest.Server) string {
	config, err := mysql.ParseDSN(s.DSN)
	require.NoError(t, err)
	return config.Addr
}

// promoted has an election at an address, first on one server and then on its replica;
// move leads the address to the second.
func promoted(t *testing.T, first, second *mysqltest.Server, shared bool, address func() string, dial dialer, move func()) {
	o := &operated{t: t, server: first, reject: true, shared: shared, refused: map[string]bool{}, database: "promoted_" + strings.ToLower(filepath.Base(t.Name()))}
	for _, s := range []*mysqltest.Server{first, second} {
		s.Exec(t, "CREATE USER IF NOT EXISTS 'plain'@'%' IDENTIFIED BY 'first'")
		s.Exec(t, "CREATE USER IF NOT EXISTS 'replica'@'%' IDENTIFIED BY 'replica'")
		s.Exec(t, "GRANT ALL ON "+o.database+".* TO 'plain'@'%'")
		s.Exec(t, "GRANT REPLICATION SLAVE ON *.* TO 'replica'@'%'")
		t.Cleanup(func() {
			s.Exec(t, "DROP USER 'plain'@'%', 'replica'@'%'")
			s.Exec(t, "DROP DATABASE IF EXISTS "+o.database)
		})
	}
	t.Cleanup(func() { readOnly(t, first, false) })
	follow(t, second, first)
	first.Exec(t, "CREATE DATABASE "+o.database)
	o.start("plain@tcp("+address()+")/"+o.database, 0, dial)
	leader, _ := o.Leader()
	o.waitForWaiters(leader)
	o.Until("a write", func() bool { return o.written() > 0 })

	began := time.Now()
	readOnly(t, first, true)
	promote(t, second, first)
	move()
	t.Logf("promoted after %v", time.Since(began))
	o.server = second
	kept := o.written()
	o.Until("a write on the promoted server", func() bool { return o.written() > kept })
	t.Logf("a write after %v", time.Since(began))
	leader, term := o.Leader()
	t.Logf("%s on the second server, %d terms", term, len(o.Ledger()))
	beat := leader.Current().Beat
	o.Until("the follower to see the promoted server", func() bool {
		seen := o.Others(leader)[0].Current()
		return seen.Number == term.Number && seen.Beat > beat
	})
	t.Logf("the follower sees the second server after %v", time.Since(began))
	o.goesOn(leader, term)
}

// follow makes a server a read-only replica of another one, from now on.
func follow(t *testing.T, replica, primary *mysqltest.Server) {
	file, position := written(t, primary)
	change, start := "CHANGE REPLICATION SOURCE TO GET_SOURCE_PUBLIC_KEY = 1, SOURCE_", "START REPLICA"
	if primary.Kind == mysqltest.MariaDB {
		change, start = "CHANGE MASTER TO MASTER_", "START SLAVE"
	}
	prefix := change[strings.LastIndexByte(change, ' ')+1:]
	replica.Exec(t, change+"HOST = ?, "+prefix+"USER = 'replica', "+prefix+"PASSWORD = 'replica', "+prefix+"LOG_FILE = ?, "+prefix+"LOG_POS = ?",
		primary.Inside(t), file, position)
	replica.Exec(t, start)
	readOnly(t, replica, true)
}

// written returns the end of a server's binary log.
func written(t *testing.T, s *mysqltest.Server) (file string, position int64) {
	db, err := stdsql.Open("mysql", s.DSN)
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.Query(map[mysqltest.Kind]string{mysqltest.MySQL: "SHOW BINARY LOG STATUS", mysqltest.MariaDB: "SHOW MASTER STATUS"}[s.Kind])
	require.NoError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	values := []any{&file, &position}
	for range columns[2:] {
		values = append(values, new(stdsql.RawBytes))
	}
	require.True(t, rows.Next())
	require.NoError(t, rows.Scan(values...))
	return file, position
}

// promote makes a replica writable, once it has everything of its primary; without one
// it only ends its replication.
func promote(t *testing.T, replica, primary *mysqltest.Server) {
	wait, stop := "SOURCE_POS_WAIT", []string{"STOP REPLICA", "RESET REPLICA ALL"}
	if replica.Kind == mysqltest.MariaDB {
		wait, stop = "MASTER_POS_WAIT", []string{"STOP SLAVE", "RESET SLAVE ALL"}
	}
	if primary != nil {
		file, position := written(t, primary)
		db, err := stdsql.Open("mysql", replica.DSN)
		require.NoError(t, err)
		defer db.Close()
		var events stdsql.NullInt64
		require.NoError(t, db.QueryRow("SELECT "+wait+"(?, ?, 30)", file, position).Scan(&events))
		require.True(t, events.Valid && events.Int64 >= 0, "the replica has not caught up: %v", events)
	}
	for _, statement := range stop {
		replica.Exec(t, statement)
	}
	readOnly(t, replica, false)
}

// haproxy starts HAProxy in front of servers, and returns its address. It leads to the
// first that is not read-only, and ends the connections to one that becomes so.
func haproxy(t *testing.T, servers ...*mysqltest.Server) (address string) {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("NO HAPROXY: elections through it were not tested; install haproxy")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a free port
	require.NoError(t, err)
	address = l.Addr().String()
	l.Close()
	config := `defaults
  mode tcp
  timeout connect 1s
  timeout client 5s
  timeout server 5s
listen mysql
  bind ` + address + `
  option httpchk GET /
  default-server inter 200ms fall 2 rise 2 on-marked-down shutdown-sessions
`
	var asked [2]atomic.Int64
	for i, s := range servers {
		db, err := stdsql.Open("mysql", s.DSN)
		require.NoError(t, err)
		check := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer asked[i].Add(1)
			var refuses bool
			if err := db.QueryRowContext(r.Context(), "SELECT @@GLOBAL.read_only").Scan(&refuses); err != nil || refuses {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		t.Cleanup(func() { check.Close(); db.Close() })
		_, port, _ := net.SplitHostPort(check.Listener.Addr().String())
		config += fmt.Sprintf("  server s%d %s check addr 127.0.0.1 port %s\n", i, addr(t, s), port)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command(program, "-db", "-f", file)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	require.Eventually(t, func() bool { return asked[0].Load() > 3 && asked[1].Load() > 3 }, 20*time.Second, 50*time.Millisecond,
		"HAProxy knows which server is read-only: it takes each for good until the second refusal")
	return address
}

package sql_test

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	"conclave/meta/metaclient"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/local"
	"conclave/testbed/local/supervisor"
)

// answering is a cluster of processes on a real server, whose user is no administrator.
type answering struct {
	*local.Cluster
	t      *testing.T
	server *mysqltest.Server
	config *mysql.Config // of the cluster's user
	root   *stdsql.Conn  // open all the time
	admin  *metaclient.Admin
	values int
	read   map[string]int64 // how much of each log logs has returned
}

// exec runs statements as the administrator.
func (c *answering) exec(statements ...string) {
	c.t.Helper()
	for _, s := range statements {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		_, err := c.root.ExecContext(ctx, s)
		cancel()
		require.NoError(c.t, err, s)
	}
}

// kill ends the connections of the cluster's user, or their statements.
func (c *answering) kill(what string) (n int) {
	rows, err := c.root.QueryContext(context.Background(), "SELECT id FROM information_schema.processlist WHERE user = 'plain'")
	require.NoError(c.t, err)
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		require.NoError(c.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(c.t, rows.Err())
	for _, id := range ids {
		_, _ = c.root.ExecContext(context.Background(), fmt.Sprintf("KILL %s %d", what, id)) // it may have ended
	}
	return len(ids)
}

// disconnect ends the connections of the cluster's user, and returns when it has none.
func (c *answering) disconnect() {
	c.until(20*time.Second, "no connection", func() bool { return c.kill("CONNECTION") == 0 })
}

// repeat does something every tenth of a second until the returned function is called.
func repeat(do func()) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				do()
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// refuses makes statements that change a table fail with an error number.
func refuses(number int, when string, tables ...string) func(c *answering) func() {
	return func(c *answering) func() {
		for _, table := range tables {
			c.exec(fmt.Sprintf("CREATE TRIGGER refuse_%s BEFORE UPDATE ON %s.%s FOR EACH ROW BEGIN IF %s THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'refused by the test'; END IF; END",
				table, c.config.DBName, table, when, number))
		}
		return func() {
			for _, table := range tables {
				c.exec(fmt.Sprintf("DROP TRIGGER %s.refuse_%s", c.config.DBName, table))
			}
		}
	}
}

// answer is one class of errors.
type answer struct {
	name  string
	lasts time.Duration // the usual 5 s if it is 0
	begin func(c *answering) (end func())

	leads, acts, fails bool          // while it lasts: a leader, acts succeed, a killed data node is replaced
	log                string        // what a WARN contains
	recovers           time.Duration // how long after its end all is as before at most; two leases if it is 0
}

// lease is that of the leader and of the nodes.
const lease = 3 * time.Second

var everyWrite = []string{"distribute_lock", "cluster_state"}

var serverAnswers = []answer{
	{name: "content", begin: refuses(1366, "NEW.kind = 'config'", "cluster_state"), leads: true, fails: true, log: "1366"},
	{name: "packet", begin: refuses(1153, "NEW.kind = 'config'", "cluster_state"), leads: true, fails: true, log: "1153"},
	{name: "deadlock", begin: refuses(1213, "TRUE", everyWrite...), log: "1213"},
	{name: "disk full", begin: refuses(1021, "TRUE", everyWrite...), log: "1021"},
	{name: "read-only", begin: func(c *answering) func() {
		c.exec("SET GLOBAL read_only = 1")
		return func() { c.exec("SET GLOBAL read_only = 0") }
	}, log: "1290"},
	{name: "gone away", begin: func(c *answering) func() { return repeat(func() { c.kill("CONNECTION") }) }, leads: true, acts: true, fails: true},
	{name: "killed query", begin: func(c *answering) func() { return repeat(func() { c.kill("QUERY") }) }, leads: true, acts: true, fails: true},
	{name: "lock wait", begin: func(c *answering) func() {
		c.exec("SET autocommit = 0", "SELECT 1 FROM "+c.config.DBName+".distribute_lock FOR UPDATE")
		return func() { c.exec("ROLLBACK", "SET autocommit = 1") }
	}, log: "the election's statements wait"},
	{name: "access denied", begin: func(c *answering) func() {
		c.exec("ALTER USER 'plain'@'%' IDENTIFIED BY 'another'")
		c.disconnect()
		return func() { c.exec("ALTER USER 'plain'@'%' IDENTIFIED BY 'plain'") }
	}, log: "Access denied"},
	{name: "too many connections", begin: func(c *answering) func() {
		c.server.Reconnect() // an idle connection of the administrator's pool would end meanwhile, and make room
		c.exec("SET GLOBAL max_connections = 12")
		var filled []*stdsql.DB
		c.until(time.Minute, "the test has every connection", func() bool {
			db, err := stdsql.Open("mysql", c.server.DSN)
			require.NoError(c.t, err)
			if db.Ping() == nil {
				filled = append(filled, db)
			} else {
				db.Close()
				c.kill("CONNECTION")
			}
			return len(filled) == 12 // and root: one more than others can have, which is an administrator's
		})
		return func() {
			for _, db := range filled {
				db.Close()
			}
			c.exec("SET GLOBAL max_connections = 151")
		}
	}, log: "Too many connections"},
	{name: "frozen", lasts: time.Minute, begin: func(c *answering) func() { return c.server.Pause(c.t) }, log: "accepts connections and has greeted none"},
}

// attempt logs in as a new client does.
func attempt(config *mysql.Config) error {
	db, err := stdsql.Open("mysql", config.FormatDSN())
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Ping()
}

// answersAlone are those that every client of the server meets.
var answersAlone = []answer{
	{name: "blocked host", begin: func(c *answering) func() {
		c.exec("SET GLOBAL max_connect_errors = 1")
		c.until(20*time.Second, "the host is blocked", func() bool {
			for range 3 { // a login that succeeds in between begins the count again
				d, err := net.Dial("tcp", c.config.Addr)
				require.NoError(c.t, err)
				_, _ = d.Read(make([]byte, 1)) // it is greeted, and gives up
				d.Close()
			}
			err := attempt(c.config)
			return err != nil && strings.Contains(err.Error(), "1129")
		})
		c.disconnect() // those that they have are as good as ever
		return func() {
			c.exec("SET GLOBAL max_connect_errors = 100", "SET GLOBAL host_cache_size = 0", "SET GLOBAL host_cache_size = 128")
		}
	}, log: "1129"},
	// Both servers wait for room, and look once a minute whether there is any.
	{name: "no room on the disk", begin: func(c *answering) func() {
		free := c.server.FillDisk(c.t)
		c.until(20*time.Second, "the last block is full", func() bool { return c.act(time.Second) != nil })
		return free
	}, log: "no client: the server itself waits", recovers: 100 * time.Second},
}

// The same on servers that no other test uses.
func TestAnswers_OfAServerOfItsOwnUnderACluster(t *testing.T) {
	bin := programs(t)
	for _, kind := range []mysqltest.Kind{mysqltest.MySQL, mysqltest.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			answeringCluster(t, bin, mysqltest.NewAlone(t, kind)).all(t, answersAlone)
		})
	}
}

// programs builds the programs of the nodes, if real servers are requested.
func programs(t *testing.T) (bin string) {
	if !mysqltest.Wanted() {
		t.Skip("real servers are not requested: set TEST_ALL=1")
	}
	bin = t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "conclave/cmd/meta", "conclave/cmd/session", "conclave/cmd/data").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

// Each class of errors that a server can answer, under a cluster whose data node is
// killed meanwhile. docs/databases.md has the results ("What a server answers,
// under a cluster").
func TestAnswers_OfTheServerUnderACluster(t *testing.T) {
	bin := programs(t)
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
		s.NeedsContainer(t)
		answeringCluster(t, bin, s).all(t, serverAnswers)
	})
}

// all plays the answers, or that which ANSWER names.
func (c *answering) all(t *testing.T, answers []answer) {
	for _, a := range answers {
		if only := os.Getenv("ANSWER"); only == "" || only == a.name {
			t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) { c.t = t; c.play(a) })
		}
	}
}

func answeringCluster(t *testing.T, bin string, s *mysqltest.Server) *answering {
	config, err := mysql.ParseDSN(s.DSN)
	require.NoError(t, err)
	s.Exec(t, "CREATE USER 'plain'@'%' IDENTIFIED BY 'plain'")
	t.Cleanup(func() { s.Exec(t, "DROP USER 'plain'@'%'") })
	s.Exec(t, "GRANT ALL ON "+config.DBName+".* TO 'plain'@'%'")
	c := &answering{t: t, server: s, config: config, root: connection(t, s.DSN), read: map[string]int64{}}
	config.User, config.Passwd = "plain", "plain"
	c.Cluster = local.New(local.Config{Bin: bin, Dir: t.TempDir(), Direct: true, NoEvents: true,
		Settings: func(set *supervisor.Config) { set.DB, set.AnyPorts = config.FormatDSN(), true }})
	require.NoError(t, c.Open(t.Context(), testbed.Size{Metas: 3, Sessions: 1, Datas: 3, Slots: 16, Replicas: 2, Lease: lease}, nil))
	t.Cleanup(func() { assert.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
	require.NoError(t, c.AwaitReady(t.Context()))
	metas, err := c.Supervisor().Addresses("meta")
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c.admin = metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: &http.Client{Transport: transport}})
	return c
}

// act changes a configuration value.
func (c *answering) act(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c.values++
	_, err := c.admin.SetConfig(ctx, "key", fmt.Sprint(c.values))
	return err
}

// serves reports whether a data node leads slots.
func (c *answering) serves(name string) bool {
	return slices.ContainsFunc(c.Observe(context.Background()).Table.Slots, func(s slot.Slot) bool { return s.Leader.Name == name })
}

func (c *answering) until(limit time.Duration, what string, is func() bool) time.Duration {
	c.t.Helper()
	began := time.Now()
	require.Eventually(c.t, is, limit, 20*time.Millisecond, what)
	return time.Since(began)
}

func (c *answering) play(a answer) {
	t, ctx := c.t, context.Background()
	c.until(time.Minute, "a calm cluster", func() bool {
		return c.serves("data-1") && c.act(2*time.Second) == nil
	})
	aborted := c.status("Aborted_connects")
	c.logs()
	made := c.status("Connections")
	end := a.begin(c)
	began := time.Now()
	require.NoError(t, c.Do(ctx, testbed.Action{Verb: testbed.Kill, Node: "data-1"}))
	lasts := max(a.lasts, 6*time.Second)
	actErr := c.act(lasts - time.Second)
	acted := time.Since(began)
	leads, failed := false, time.Duration(0)
	for time.Since(began) < lasts {
		now := c.Observe(ctx)
		leads = now.Leader != ""
		if failed == 0 && leads && !slices.ContainsFunc(now.Table.Slots, func(s slot.Slot) bool { return s.Leader.Name == "data-1" }) {
			failed = time.Since(began)
		}
		time.Sleep(50 * time.Millisecond)
	}
	end()
	ended := time.Now()
	led := c.until(90*time.Second, "a leader", func() bool { return c.Observe(ctx).Leader != "" })
	c.until(time.Minute, "acts succeed", func() bool { return c.act(2*time.Second) == nil })
	c.until(time.Minute, "the killed node's slots are served", func() bool { return !c.serves("data-1") })
	all := time.Since(ended)
	warned := warnings(c.logs())
	t.Logf("%s, %s: act: %v after %.1f s; leader at the end: %v; failover after %.1f s (0: not meanwhile); a leader %.1f s, all as before %.1f s after its end; connections made %d, aborted %d",
		c.server.Kind, a.name, actErr, acted.Seconds(), leads, failed.Seconds(), led.Seconds(), all.Seconds(), c.status("Connections")-made, c.status("Aborted_connects")-aborted)
	for _, line := range warned {
		t.Log(line)
	}
	require.NoError(t, c.Do(ctx, testbed.Action{Verb: testbed.Start, Node: "data-1"}))
	assert.True(t, a.log == "" || slices.ContainsFunc(warned, func(line string) bool { return strings.Contains(line, a.log) }), "no WARN has %q", a.log)
	assert.Equal(t, a.acts, actErr == nil, "the act: %v", actErr)
	if !a.acts { // those that last: the outcome while they do is certain
		assert.Equal(t, a.leads, leads, "a leader")
	}
	if a.fails {
		assert.NotZero(t, failed, "the killed data node is replaced")
	}
	assert.Less(t, all, cmp.Or(a.recovers, 2*lease))
	if a.name == "frozen" {
		assert.Less(t, led, lease, "a leader after the freeze")
		assert.Less(t, c.status("Aborted_connects")-aborted, 100, "max_connect_errors")
	}
	if a.name == "read-only" {
		assert.Less(t, c.status("Connections")-made, 100)
	}
}

// status returns a status variable of the server.
func (c *answering) status(name string) (n int) {
	var variable string
	require.NoError(c.t, c.root.QueryRowContext(context.Background(), "SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&variable, &n))
	return n
}

// logs returns what the metas have logged since the last call.
func (c *answering) logs() string {
	files, err := c.LogFiles(context.Background())
	require.NoError(c.t, err)
	var all strings.Builder
	for _, name := range []string{"meta-1", "meta-2", "meta-3"} {
		f, err := os.Open(files[name])
		require.NoError(c.t, err)
		_, err = f.Seek(c.read[name], io.SeekStart)
		require.NoError(c.t, err)
		n, err := io.Copy(&all, f)
		c.read[name] += n
		f.Close()
		require.NoError(c.t, err)
	}
	return all.String()
}

// warnings returns the different warnings of a log, without their times.
func warnings(log string) (out []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(log) {
		at := max(strings.Index(line, "[WARN]"), strings.Index(line, "[ERROR]"))
		if at < 0 {
			continue
		}
		key := strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, line[at:])
		if !seen[key] {
			seen[key] = true
			out = append(out, strings.TrimSpace(line[at:]))
		}
	}
	return out
}

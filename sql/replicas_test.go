package sql_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// A DSN with several hosts is for replicated servers. Two that know nothing of each
// other would each elect a leader.
func TestOpen_HostsThatAreNotReplicatedAreRefused(t *testing.T) {
	first, second := embedded(t, devdb.Config{}), embedded(t, devdb.Config{})
	_, other, _ := strings.Cut(second, "tcp(")
	other, _, _ = strings.Cut(other, ")")
	db := open(t, strings.Replace(first, ")/", ","+other+")/", 1))
	err := db.Check(t.Context(), conclavesql.DefaultLock())
	require.ErrorIs(t, err, conclavesql.ErrUnavailable)
	assert.ErrorContains(t, err, "in no replication group and in no Galera cluster")
	assert.Empty(t, db.Writer())
}

// usesWriter checks that db reaches the member that accepts writes.
func usesWriter(t *testing.T, db *conclavesql.DB, want *mysqltest.Replica) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := db.Exec(ctx, "UPDATE schema_version SET version = version WHERE id = 1")
		return err == nil && db.Writer() == want.Addr
	}, time.Minute, 100*time.Millisecond, "statements at %s", want.Addr)
}

func TestGroup_ConnectionsFollowThePrimary(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.GroupReplication)
	db := openWith(t, r.DSN, conclavesql.Options{Deadline: time.Second})
	lock := conclavesql.Lock{DataCenter: "test", Name: t.Name()}
	require.NoError(t, db.Migrate(t.Context(), lock))
	assert.Equal(t, conclavesql.GroupReplication, db.Replication())
	primary := r.Primary(t)
	usesWriter(t, db, primary)
	assert.Empty(t, db.Advice(), "the settings of the fixture")

	lost := make(chan error, 1)
	pinned, err := db.Pin(t.Context(), func(err error) { lost <- err })
	require.NoError(t, err)
	defer pinned.Close()
	// A wait on the former primary must not last until its end.
	waited := make(chan error, 1)
	go func() {
		var slept int
		waited <- pinned.QueryRow(context.Background(), "SELECT SLEEP(60)", nil, &slept)
	}()
	next := r.Secondaries(t)[0]
	r.Switch(t, next)
	usesWriter(t, db, next)
	assert.Error(t, <-lost)
	assert.ErrorIs(t, <-waited, conclavesql.ErrUnavailable)

	again, err := db.Pin(t.Context(), nil)
	require.NoError(t, err)
	defer again.Close()
	n, err := again.Exec(t.Context(), "UPDATE distribute_lock SET address = 'here' WHERE lock_name = ?", lock.Name)
	require.NoError(t, err)
	assert.Equal(t, int64(1), n)
}

// A user without the right to see the group learns what is missing.
func TestGroup_UserNeedsToSeeTheGroup(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.GroupReplication)
	primary := r.Primary(t)
	primary.Exec(t, "CREATE USER blind@'%' IDENTIFIED BY 'secret'")
	defer primary.Exec(t, "DROP USER blind@'%'")
	_, hosts, _ := strings.Cut(r.DSN, "@")
	_, database, _ := strings.Cut(hosts, "/")
	primary.Exec(t, "GRANT ALL ON "+database+".* TO blind@'%'")
	db := open(t, "blind:secret@"+hosts)
	require.Eventually(t, func() bool { // until the user is on all members
		err := db.Check(t.Context(), conclavesql.DefaultLock())
		return assert.ObjectsAreEqual(true, err != nil) && strings.Contains(err.Error(), "SELECT on performance_schema.replication_group_members")
	}, 30*time.Second, 200*time.Millisecond)
	primary.Exec(t, "GRANT SELECT ON performance_schema.replication_group_members TO blind@'%'")
	require.Eventually(t, func() bool {
		_, err := db.Exec(t.Context(), "SELECT 1")
		return err == nil
	}, 30*time.Second, 200*time.Millisecond)
}

package devdb_test

import (
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
)

func clusterTables(t *testing.T, db *sql.DB) {
	run(t, db, lockTable)
	run(t, db, lockRow)
	run(t, db, `CREATE TABLE cluster_state (kind varchar(32) NOT NULL PRIMARY KEY, body mediumblob NOT NULL,
		term bigint NOT NULL, seq bigint NOT NULL, nonce varchar(64) NOT NULL DEFAULT '')`)
	run(t, db, `CREATE TABLE election_history (id bigint AUTO_INCREMENT PRIMARY KEY, term bigint NOT NULL, owner varchar(255) NOT NULL,
		at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), UNIQUE KEY uk (term, owner))`)
	run(t, db, `INSERT INTO cluster_state (kind, body, term, seq) VALUES ('slots', '', 0, 0), ('members', '', 0, 0)`)
}

// The compare-and-swap of the election with each of its reasons.
const compareAndSwap = `UPDATE distribute_lock
	SET owner = ?, term = GREATEST(term, ?) + 1, beat = 0, duration = ?, gmt_modified = NOW(3), nonce = ?,
		witness_lock = ?, witness_conn = CONNECTION_ID(), resigned = 0
	WHERE data_center = 'dc' AND lock_name = 'META' AND owner = ? AND term = ? AND nonce <=> ?
		AND CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID()
		AND (resigned = 1 OR owner = ''
			OR (beat = ? AND TIMESTAMPDIFF(MICROSECOND, gmt_modified, NOW(6)) > duration * 1000)
			OR (witness_lock = ? AND IS_USED_LOCK(?) = CONNECTION_ID()))`

func TestElectionStatements(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	clusterTables(t, db)
	a, idA := connect(t, db)
	b, idB := connect(t, db)
	require.Equal(t, 1, one[int](t, a, "SELECT GET_LOCK('cv:A', 0)"))
	require.Equal(t, 1, one[int](t, b, "SELECT GET_LOCK('cv:B', 0)"))

	assert.Zero(t, run(t, a, compareAndSwap, "a", 5, 100, "A", "cv:A", "", 0, nil, idB, "cv:A", 0, "-", "-"), "not on this connection")
	assert.Zero(t, run(t, a, compareAndSwap, "a", 5, 100, "A", "cv:A", "", 0, nil, idA, "cv:B", 0, "-", "-"), "not with this lock")
	assert.EqualValues(t, 1, run(t, a, compareAndSwap, "a", 5, 60_000, "A", "cv:A", "", 0, nil, idA, "cv:A", 0, "-", "-"), "vacant")
	assert.Equal(t, 6, one[int](t, db, "SELECT term FROM distribute_lock"), "the term is above the highest one seen")
	assert.Zero(t, run(t, b, compareAndSwap, "b", 6, 100, "B", "cv:B", "a", 6, "A", idB, "cv:B", 0, "cv:A", "cv:A"), "not expired, not its lock")

	// Renewal and suspension.
	renew := `UPDATE distribute_lock SET beat = beat + 1, gmt_modified = NOW(3) WHERE owner = ? AND term = ? AND beat = ?`
	assert.EqualValues(t, 1, run(t, a, renew, "a", 6, 0))
	assert.Zero(t, run(t, a, renew, "a", 6, 0))
	assert.EqualValues(t, 1, run(t, a, `UPDATE distribute_lock SET beat = beat + 2, witness_lock = ?, witness_conn = CONNECTION_ID(), gmt_modified = NOW(3)
		WHERE owner = ? AND term = ? AND witness_lock = ? AND beat IN (?, ?)`, "cv:A", "a", 6, "cv:A", 0, 1))

	// The query of a follower that waits for the witness.
	var owner, lock string
	var holds, isIt, age int64
	require.NoError(t, b.QueryRowContext(t.Context(), `SELECT owner, witness_lock, IS_USED_LOCK(COALESCE(witness_lock, '-')),
		IS_USED_LOCK(COALESCE(witness_lock, '-')) = witness_conn, TIMESTAMPDIFF(MICROSECOND, gmt_modified, NOW(6)) FROM distribute_lock`).Scan(&owner, &lock, &holds, &isIt, &age))
	assert.Equal(t, []any{"a", "cv:A", int64(idA), int64(1)}, []any{owner, lock, holds, isIt})
	assert.GreaterOrEqual(t, age, int64(0))

	// The witness: the leader's connection breaks, the follower gets the lock
	// and swaps.
	got := waitFor(t, b, "cv:A")
	awaitWaiting(t, db, 1)
	hangUp(t, a)
	require.NoError(t, <-got)
	assert.EqualValues(t, 1, run(t, b, compareAndSwap, "b", 6, 100, "B", "cv:B", "a", 6, "A", idB, "cv:B", 3, "cv:A", "cv:A"), "by witness")

	// The lease expires because no node renews it.
	c, idC := connect(t, db)
	require.Equal(t, 1, one[int](t, c, "SELECT GET_LOCK('cv:C', 0)"))
	require.Eventually(t, func() bool {
		return run(t, c, compareAndSwap, "c", 7, 100, "C", "cv:C", "b", 7, "B", idC, "cv:C", 0, "-", "-") == 1
	}, 30*time.Second, 10*time.Millisecond)
	// Resigned.
	assert.EqualValues(t, 1, run(t, c, "UPDATE distribute_lock SET owner = '', resigned = 1 WHERE owner = ? AND term = ?", "c", 8))
	assert.EqualValues(t, 1, run(t, b, compareAndSwap, "b", 8, 100, "B2", "cv:B", "", 8, "C", idB, "cv:B", 0, "-", "-"))
	assert.Equal(t, 9, one[int](t, db, "SELECT term FROM distribute_lock"))
}

func TestFencedStatements(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	clusterTables(t, db)
	run(t, db, "UPDATE distribute_lock SET owner = 'me', term = 7")
	body := []byte("\x00\xff'\"\\\n;")

	write := `UPDATE cluster_state k JOIN distribute_lock l ON l.data_center = 'dc' AND l.lock_name = 'META'
		SET k.body = ?, k.term = ?, k.seq = ?, k.nonce = ?
		WHERE k.kind = ? AND k.term = ? AND k.seq = ? AND l.owner = ? AND l.term = ?`
	assert.EqualValues(t, 1, run(t, db, write, body, 7, 1, "n", "slots", 0, 0, "me", 7))
	assert.Equal(t, body, one[[]byte](t, db, "SELECT body FROM cluster_state WHERE kind = 'slots'"))
	assert.Zero(t, run(t, db, write, body, 7, 2, "n", "slots", 0, 0, "me", 7), "not as read")
	assert.Zero(t, run(t, db, write, body, 7, 2, "n", "slots", 7, 1, "other", 7), "not the owner")
	assert.Zero(t, run(t, db, write, body, 7, 2, "n", "slots", 7, 1, "me", 6), "not the term")
	assert.EqualValues(t, 2, run(t, db, `UPDATE cluster_state k JOIN distribute_lock l ON l.lock_name = 'META' SET k.term = l.term, k.seq = 3 WHERE l.owner = ? AND l.term = ?`, "me", 7), "several kinds")

	record := `INSERT INTO election_history (term, owner) SELECT ?, ? FROM distribute_lock WHERE data_center = 'dc' AND lock_name = 'META' AND owner = ? AND term = ?`
	assert.EqualValues(t, 1, run(t, db, record, 7, "me", "me", 7))
	assert.Zero(t, run(t, db, record, 6, "me", "me", 6))
	assert.EqualValues(t, 2, run(t, db, record+" ON DUPLICATE KEY UPDATE at = DATE_ADD(NOW(3), INTERVAL 1 SECOND)", 7, "me", "me", 7))
	_, err := db.Exec(record, 7, "me", "me", 7)
	assert.EqualValues(t, 1062, number(err), "%v", err)

	upsert := "INSERT INTO cluster_state (kind, body, term, seq) VALUES (?, '', 0, ?) ON DUPLICATE KEY UPDATE seq = GREATEST(seq, VALUES(seq))"
	assert.EqualValues(t, 1, run(t, db, upsert, "freeze", 1))
	assert.EqualValues(t, 2, run(t, db, upsert, "freeze", 5))
	assert.EqualValues(t, 0, run(t, db, upsert, "freeze", 4))
	assert.EqualValues(t, 0, run(t, db, "INSERT IGNORE INTO cluster_state (kind, body, term, seq) VALUES ('freeze', '', 0, 0)"))
	assert.EqualValues(t, 1, run(t, db, "DELETE h FROM election_history h JOIN distribute_lock l ON l.lock_name = 'META' WHERE l.owner = ? AND l.term = ? AND h.term <= ?", "me", 7, 7))
}

func TestTime_IsExactInMicroseconds(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	assert.Equal(t, 1_500_000, one[int](t, db, "SELECT TIMESTAMPDIFF(MICROSECOND, DATE_SUB(NOW(6), INTERVAL 1500000 MICROSECOND), NOW(6))"))
	assert.Equal(t, 1_500_000, one[int](t, db, "SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMPADD(MICROSECOND, -1500000, NOW(6)), NOW(6))"))
	assert.GreaterOrEqual(t, one[int](t, db, "SELECT TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) FROM (SELECT SLEEP(0.01)) AS s"), 10_000, "SYSDATE advances while a statement runs")
	assert.WithinDuration(t, time.Now(), one[time.Time](t, db, "SELECT NOW(3)"), 10*time.Second, "in UTC, for any zone of the machine")
	ms := one[int64](t, db, "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)")
	assert.WithinDuration(t, time.Now(), time.UnixMilli(ms), 10*time.Second)
}

// The parser passes 0 if no digits are given.
func TestUTCTimestamp_TakesDigits(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	assert.WithinDuration(t, time.Now(), one[time.Time](t, db, "SELECT UTC_TIMESTAMP(3)"), 10*time.Second)
	run(t, db, "CREATE TABLE born (id INT PRIMARY KEY, at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)))")
	run(t, db, "INSERT INTO born (id) VALUES (1)")
	assert.WithinDuration(t, time.Now(), one[time.Time](t, db, "SELECT at FROM born"), 10*time.Second, "as a default")
	for _, wrong := range []string{"UTC_TIMESTAMP(7)", "UTC_TIMESTAMP(-1)", "UTC_TIMESTAMP('x')", "UTC_TIMESTAMP(3, 3)"} {
		_, err := db.Exec("SELECT " + wrong)
		assert.Error(t, err, wrong)
	}
}

func TestServerVariables(t *testing.T) {
	s, _ := serve(t, devdb.Config{Database: "registry"})
	db := open(t, s)
	assert.Equal(t, "ROW", one[string](t, db, "SELECT @@binlog_format"))
	assert.Equal(t, "registry", one[string](t, db, "SELECT DATABASE()"))
	assert.NotEmpty(t, one[string](t, db, "SELECT @@server_uuid"))

	questions := func() (n int64) {
		var name string
		require.NoError(t, db.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n))
		return n
	}
	first, counted := questions(), s.Statements()
	for range 10 {
		run(t, db, "SELECT 1")
	}
	assert.EqualValues(t, 11, questions()-first, "ten, and this query")
	assert.EqualValues(t, 11, s.Statements()-counted)
}

func TestRefusedStatements_FailWith1235(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	counterTable(t, db)
	for _, statement := range []string{
		"LOCK TABLES counter WRITE",
		"LOAD DATA INFILE '/etc/passwd' INTO TABLE counter",
		"SELECT LOAD_FILE('/etc/passwd')",
		"SELECT load_file/**/('/etc/passwd')",
		"SELECT `LOAD_FILE`('/etc/passwd')",
		"SELECT 1 FROM counter WHERE LOAD_FILE('/etc/passwd') LIKE 'root%'",
		"SELECT (SELECT LOAD_FILE(CONCAT('/etc/', 'passwd')))",
		"INSERT INTO counter SELECT 2, LENGTH(LOAD_FILE('/etc/passwd'))",
		"UPDATE counter SET n = LENGTH(LOAD_FILE('/etc/passwd'))",
		"SELECT n FROM counter INTO OUTFILE '/tmp/x'",
		"SELECT n FROM counter INTO/**/OUTFILE '/tmp/x'",
		"SELECT n FROM counter INTO/**/DUMPFILE '/tmp/x'",
		"/**/LOAD/**/DATA INFILE '/etc/passwd' INTO TABLE counter",
		"CREATE OR REPLACE VIEW v AS SELECT 1",
		"create definer = root@localhost trigger t BEFORE INSERT ON counter FOR EACH ROW SET NEW.n = 1",
		"/* hidden */ CREATE PROCEDURE p() SELECT 1",
	} {
		_, err := db.Exec(statement)
		assert.EqualValues(t, 1235, number(err), "%s: %v", statement, err)
	}
	assert.Equal(t, 0, one[int](t, db, "SELECT n FROM counter"), "they change nothing")
}

// A statement that the server puts together itself is not seen by a check of the
// client's text.
func TestRefusedStatements_PreparedFromText(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	cfg := parsed(t, s)
	db := openConfig(t, cfg)
	db.SetMaxOpenConns(1) // variables belong to a session
	counterTable(t, db)
	file := filepath.Join(t.TempDir(), "out")
	for _, text := range []string{
		`CONCAT("SELECT LOAD", "_FILE('/etc/passwd')")`,
		`CONCAT("SELECT n FROM counter INTO OUT", "FILE '` + file + `'")`,
		`CONCAT("SELECT n FROM counter INTO DUMP", "FILE '` + file + `'")`,
	} {
		_, err := db.Exec("SET @s = " + text)
		require.NoError(t, err)
		_, err = db.Exec("PREPARE p FROM @s")
		if err == nil {
			_, err = db.Exec("EXECUTE p")
		}
		assert.Error(t, err, text)
		_, err = os.Stat(file)
		assert.ErrorIs(t, err, fs.ErrNotExist, text)
	}
	// Nor is one whose text arrives with COM_STMT_PREPARE.
	cfg.InterpolateParams = false
	prepared := openConfig(t, cfg)
	_, err := prepared.Exec("SELECT LOAD_FILE(?)", "/etc/passwd")
	assert.EqualValues(t, 1235, number(err), err)
}

func TestRegularExpressionsAreRefused(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	db := open(t, s)
	for _, query := range []string{"SELECT 'meta-12' REGEXP '^meta'", "SELECT REGEXP_REPLACE('12-7', '[0-9]+', 'x')", "SELECT REGEXP_SUBSTR('x y', 'y')", "SELECT REGEXP_INSTR('x y', 'y')"} {
		_, err := db.Exec(query)
		assert.ErrorContains(t, err, "does not support regular expressions", query)
	}
}

// Prepared statements, and several statements in one packet, pass the gate as
// well.
func TestPreparedAndMultiStatements(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	cfg := parsed(t, s)
	cfg.InterpolateParams, cfg.MultiStatements = false, true
	db := openConfig(t, cfg)
	counterTable(t, db)
	assert.EqualValues(t, 1, run(t, db, "UPDATE counter SET n = n + ? WHERE id = ?", 3, 1))
	assert.Equal(t, 3, one[int](t, db, "SELECT n FROM counter WHERE id = ?", 1))
	run(t, db, "BEGIN; UPDATE counter SET n = 10; ROLLBACK; UPDATE counter SET n = n + 1")
	assert.Equal(t, 4, one[int](t, db, "SELECT n FROM counter"))
	stmt, err := db.Prepare("SELECT GET_LOCK(?, ?)")
	require.NoError(t, err)
	defer stmt.Close()
	var got int
	require.NoError(t, stmt.QueryRow("l", 1).Scan(&got))
	assert.Equal(t, 1, got)
}

// A savepoint shows whether a transaction has ended; it is not rolled back to.
func TestSavepoint_LastsAsLongAsItsTransaction(t *testing.T) {
	s, _ := serve(t, devdb.Config{})
	conn, _ := connect(t, open(t, s))
	run(t, conn, "CREATE TABLE kept (id int PRIMARY KEY)")
	exec := func(statement string) error {
		_, err := conn.ExecContext(t.Context(), statement)
		return err
	}
	for _, statement := range []string{"BEGIN", "SAVEPOINT a", "INSERT INTO kept VALUES (1)", "savepoint B", "RELEASE SAVEPOINT b", "RELEASE SAVEPOINT A"} {
		require.NoError(t, exec(statement), statement)
	}
	require.ErrorContains(t, exec("RELEASE SAVEPOINT a"), "1305")
	require.NoError(t, exec("SAVEPOINT a"))
	require.Error(t, exec("ROLLBACK TO SAVEPOINT a"))
	require.NoError(t, exec("COMMIT"))
	require.ErrorContains(t, exec("RELEASE SAVEPOINT a"), "1305")
	require.NoError(t, exec("BEGIN"))
	require.ErrorContains(t, exec("RELEASE SAVEPOINT a"), "1305", "of another transaction")
	require.NoError(t, exec("ROLLBACK"))
	assert.Equal(t, 1, one[int](t, conn, "SELECT COUNT(*) FROM kept"))
}

package devdb_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
)

func TestRestart_KeepsTablesAndRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db.sql")
	s, crash := serve(t, devdb.Config{File: file})
	db := open(t, s)
	run(t, db, lockTable)
	run(t, db, lockRow)
	run(t, db, `CREATE TABLE parent (id int PRIMARY KEY)`)
	run(t, db, `CREATE TABLE child (id int PRIMARY KEY, parent int NOT NULL, CONSTRAINT fk FOREIGN KEY (parent) REFERENCES parent (id))`)
	run(t, db, "INSERT INTO parent VALUES (1)")
	run(t, db, "INSERT INTO child VALUES (1, 1)")
	run(t, db, "CREATE TABLE a_child (id int PRIMARY KEY, parent int, FOREIGN KEY (parent) REFERENCES parent (id))") // loaded before its parent
	run(t, db, `CREATE TABLE odd (id bigint AUTO_INCREMENT PRIMARY KEY, text text, raw mediumblob, at timestamp(6) NULL, price decimal(10,2),
		ratio double, flag bit(3), doc json, day date, twice bigint GENERATED ALWAYS AS (id * 2) STORED, `+"`order`"+` varchar(20) DEFAULT 'a;b''c')`)
	raw := make([]byte, 256)
	for i := range raw {
		raw[i] = byte(i)
	}
	text := "quote ' \" \\ ; -- \n\r\t\x00\x1a äöü 世界"
	at := time.Date(2026, 11, 21, 10, 20, 30, 123456000, time.UTC)
	insert := `INSERT INTO odd (text, raw, at, price, ratio, flag, doc, day) VALUES (?, ?, ?, 12.50, ?, b'101', '{"k": [1, "x''y"]}', '2026-02-03')`
	run(t, db, insert, text, raw, at, 1.0/3)
	run(t, db, "INSERT INTO odd (text) VALUES (NULL)")
	run(t, db, "DELETE FROM odd WHERE id = 2")
	modified := one[time.Time](t, db, "SELECT gmt_modified FROM distribute_lock")
	db.Close()
	crash()

	next := 3
	for range 2 { // what was loaded is written again
		s, crash = serve(t, devdb.Config{File: file})
		db = open(t, s)
		assert.Equal(t, modified, one[time.Time](t, db, "SELECT gmt_modified FROM distribute_lock"))
		assert.Equal(t, text, one[string](t, db, "SELECT text FROM odd WHERE id = 1"))
		assert.True(t, bytes.Equal(raw, one[[]byte](t, db, "SELECT raw FROM odd WHERE id = 1")))
		assert.Equal(t, at, one[time.Time](t, db, "SELECT at FROM odd WHERE id = 1"))
		assert.Equal(t, "12.50", one[string](t, db, "SELECT price FROM odd WHERE id = 1"))
		assert.Equal(t, 1.0/3, one[float64](t, db, "SELECT ratio FROM odd WHERE id = 1"))
		assert.Equal(t, 5, one[int](t, db, "SELECT flag + 0 FROM odd WHERE id = 1"))
		assert.Equal(t, "x'y", one[string](t, db, "SELECT JSON_UNQUOTE(JSON_EXTRACT(doc, '$.k[1]')) FROM odd WHERE id = 1"))
		assert.Equal(t, 2, one[int](t, db, "SELECT twice FROM odd WHERE id = 1"))
		assert.Equal(t, "a;b'c", one[string](t, db, "SELECT `order` FROM odd WHERE id = 1"))
		run(t, db, "INSERT INTO odd (text) VALUES ('next')")
		assert.EqualValues(t, next, one[int](t, db, "SELECT MAX(id) FROM odd"), "the deleted row's id is not used again")
		run(t, db, "DELETE FROM odd WHERE id > 1")
		next++
		_, err := db.Exec("INSERT INTO child VALUES (2, 77)")
		assert.EqualValues(t, 1452, number(err), "foreign keys are restored: %v", err)
		_, err = db.Exec(lockRow)
		assert.EqualValues(t, 1062, number(err), "unique keys are restored: %v", err)
		run(t, db, "UPDATE distribute_lock SET beat = beat + 1")
		db.Close()
		crash()
	}
}

func TestRollback_RowsAreNotInTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db.sql")
	s, crash := serve(t, devdb.Config{File: file})
	db := open(t, s)
	counterTable(t, db)
	tx, err := db.Begin()
	require.NoError(t, err)
	run(t, tx, "UPDATE counter SET n = 1")
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.NotContains(t, string(before), "(1,1)", "an open transaction is not written")
	require.NoError(t, tx.Rollback())
	tx, err = db.Begin()
	require.NoError(t, err)
	run(t, tx, "UPDATE counter SET n = 2")
	require.NoError(t, tx.Commit())
	db.Close()
	crash()
	s, _ = serve(t, devdb.Config{File: file})
	assert.Equal(t, 2, one[int](t, open(t, s), "SELECT n FROM counter"))
}

func TestNew_DamagedFileIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db.sql")
	s, crash := serve(t, devdb.Config{File: file})
	db := open(t, s)
	counterTable(t, db)
	run(t, db, "UPDATE counter SET n = 5") // (1,0) is not in the last part
	db.Close()
	crash()
	whole, err := os.ReadFile(file)
	require.NoError(t, err)

	for name, damaged := range map[string]string{
		"cut":     string(whole[:100]),
		"changed": strings.Replace(string(whole), "(1,0)", "(1,9)", 1),
		"not SQL": "-- my own file\nCREATE TABLE t (id int PRIMARY KEY);\nhello",
	} {
		require.NoError(t, os.WriteFile(file, []byte(damaged), 0o600))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		_, err = devdb.New(devdb.Config{Listener: l, File: file})
		assert.ErrorContains(t, err, file, name)
		l.Close()
		left, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, damaged, string(left), "the file is unchanged")
	}
	byHand := "CREATE TABLE `counter` (id int PRIMARY KEY, n int);\n INSERT INTO counter VALUES (1, 42);\n\n"
	require.NoError(t, os.WriteFile(file, []byte("CREATE DATABASE conclave; USE conclave; "+byHand), 0o600))
	s, _ = serve(t, devdb.Config{File: file})
	assert.Equal(t, 42, one[int](t, open(t, s), "SELECT n FROM counter"), "a file without a checksum is loaded")
}

func TestNew_FileInUseIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db.sql")
	_, crash := serve(t, devdb.Config{File: file})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = devdb.New(devdb.Config{Listener: l, File: file})
	require.ErrorContains(t, err, "in use")
	crash()
	serve(t, devdb.Config{File: file})
}

// When the file cannot be written, the statement must fail, and the server must
// stop because its memory has changes that the file lacks.
func TestRun_EndsWhenTheFileCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o700))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := devdb.New(devdb.Config{Listener: l, File: filepath.Join(dir, "db.sql"), Logger: testLog(t)})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	db := open(t, s)
	counterTable(t, db)
	require.NoError(t, os.RemoveAll(dir))
	_, err = db.Exec("UPDATE counter SET n = 1")
	assert.Error(t, err)
	assert.ErrorContains(t, <-ended, "save tables")
}

// A server with a password reads its own tables as its user, for the file.
func TestRestart_WithAPassword(t *testing.T) {
	config := devdb.Config{File: filepath.Join(t.TempDir(), "db.sql"), User: "meta", Password: "it's secret"}
	for i := range 3 {
		s, crash := serve(t, config)
		db := open(t, s)
		if i == 0 {
			run(t, db, lockTable)
			run(t, db, lockRow)
		}
		run(t, db, "UPDATE distribute_lock SET beat = beat + 1")
		assert.Equal(t, i+1, one[int](t, db, "SELECT beat FROM distribute_lock"))
		db.Close()
		crash()
	}
}

// What changes is appended, so that a statement costs the same however many rows
// other tables have; a part that was cut short belongs to a statement without an
// answer.
func TestRestart_AppendedChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db.sql")
	s, crash := serve(t, devdb.Config{File: file})
	db := open(t, s)
	counterTable(t, db)
	run(t, db, "CREATE TABLE other (id int PRIMARY KEY, text varchar(100))")
	run(t, db, "INSERT INTO other VALUES (1, 'is written once')")
	run(t, db, "DELETE FROM other WHERE id = 2") // changes nothing
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	for range 3 {
		run(t, db, "UPDATE counter SET n = n + 1")
	}
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(after, before), "nothing is written again")
	assert.Equal(t, 1, strings.Count(string(after), "is written once"))
	db.Close()
	crash()

	last := bytes.LastIndex(after, []byte("-- conclave devdb"))
	for name, c := range map[string]struct {
		file string
		n    int
	}{
		"whole":                {string(after), 3},
		"last part cut":        {string(after[:len(after)-3]), 2},
		"last header cut":      {string(after[:last+9]), 2},
		"last part not synced": {string(after[:len(after)-9]) + strings.Repeat("\x00", 9), 2},
	} {
		require.NoError(t, os.WriteFile(file, []byte(c.file), 0o600))
		s, crash := serve(t, devdb.Config{File: file})
		db := open(t, s)
		assert.Equal(t, c.n, one[int](t, db, "SELECT n FROM counter"), name)
		run(t, db, "UPDATE counter SET n = n + 10")
		db.Close()
		crash()
		s, crash = serve(t, devdb.Config{File: file})
		assert.Equal(t, c.n+10, one[int](t, open(t, s), "SELECT n FROM counter"), name)
		crash()
	}

	damaged := strings.Replace(string(after), "(1,1)", "(1,7)", 1) // in the last part but two
	require.NoError(t, os.WriteFile(file, []byte(damaged), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = devdb.New(devdb.Config{Listener: l, File: file})
	assert.ErrorContains(t, err, "damaged")
}

// A file of an earlier version, which was one part without a length, is loaded.
func TestNew_FileOfEarlierVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db.sql")
	body := "SET FOREIGN_KEY_CHECKS=0;\nCREATE DATABASE IF NOT EXISTS `conclave`;\nUSE `conclave`;\nCREATE TABLE `counter` (id int PRIMARY KEY, n int);\nINSERT INTO `counter` (`id`,`n`) VALUES\n(1,42);\n"
	sum := crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "-- conclave devdb 1 crc32c=%08x\n%s", sum, body), 0o600))
	s, _ := serve(t, devdb.Config{File: file})
	assert.Equal(t, 42, one[int](t, open(t, s), "SELECT n FROM counter"))

	damaged := filepath.Join(t.TempDir(), "db.sql")
	require.NoError(t, os.WriteFile(damaged, fmt.Appendf(nil, "-- conclave devdb 1 crc32c=%08x\n%s", sum^1, body), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = devdb.New(devdb.Config{Listener: l, File: damaged})
	assert.ErrorContains(t, err, "damaged")
}

package sql

import (
	"embed"
	"io/fs"
	"strings"
)

// files holds the schema and the statements, one in each file. Each file begins
// with the reason for every predicate in its WHERE clause. The number of a
// schema file is the version that the schema has after it, and the order of
// application.
//
//go:embed schema/*.sql lock/*.sql state/*.sql history/*.sql diagnosis/*.sql member/*.sql
var files embed.FS

// The statements of the election and of the fenced writes. Their comments are
// removed before they are sent.
var (
	schemaRead = statement("schema/read_version.sql")
	schemaSeed = statement("schema/seed_version.sql")
	schemaSet  = statement("schema/set_version.sql")

	schemaRows    = statement("schema/rows.sql")
	schemaEngines = statement("schema/engines.sql")

	LockSeed       = statement("lock/seed.sql")
	LockLook       = statement("lock/look.sql")
	LockWinVacant  = statement("lock/win_vacant.sql")
	LockWinOwn     = statement("lock/win_own.sql")
	LockWinExpired = statement("lock/win_expired.sql")
	LockWinOverdue = statement("lock/win_overdue.sql")
	LockWinWitness = statement("lock/win_witness.sql")
	LockRenew      = statement("lock/renew.sql")
	LockReacquire  = statement("lock/reacquire.sql")
	LockResign     = statement("lock/resign.sql")
	LockTake       = statement("lock/take.sql")
	LockAwait      = statement("lock/await.sql")
	LockUsed       = statement("lock/used.sql")
	LockRelease    = statement("lock/release.sql")
	LockBinlog     = statement("lock/binlog.sql")

	StateSeed  = statement("state/seed.sql")
	StateRead  = statement("state/read.sql")
	StateOwner = statement("state/owner.sql")
	StateWrite = statement("state/write.sql")
	StateSeal  = statement("state/seal.sql")

	HistoryRecord = statement("history/record.sql")
	HistoryList   = statement("history/list.sql")
)

// The statements of the original's election.
var (
	SofaLook    = statement("lock/sofa_look.sql")
	SofaInsert  = statement("lock/sofa_insert.sql")
	SofaFirst   = statement("lock/sofa_first.sql")
	SofaWin     = statement("lock/sofa_win.sql")
	SofaBeat    = statement("lock/sofa_beat.sql")
	SofaRefresh = statement("lock/sofa_refresh.sql")
)

// statement returns a statement of this package.
func statement(path string) string { return Statement(files, path) }

// Statement returns the content of a file without its comment lines, because
// the driver would count question marks in comments as parameters. It panics if
// the file does not exist, which every test would show. A package with tables
// of its own embeds its statements by the same rule: one in each file, which
// begins with the reason for every predicate.
func Statement(files fs.FS, path string) string {
	text, err := fs.ReadFile(files, path)
	if err != nil {
		panic(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, ""))
}

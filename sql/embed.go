package sql

import (
	"embed"
	"strings"
)

// files holds the schema and the statements, one a file. Each file begins with
// the reason for every predicate in its WHERE. A schema file's number is the
// version that it brings the schema to, and the order of application.
//
//go:embed schema/*.sql lock/*.sql state/*.sql history/*.sql
var files embed.FS

// The statements, for the packages that elect and fence with them. The comments
// of the files are left out of what is sent.
var (
	schemaRead = statement("schema/read_version.sql")
	schemaSeed = statement("schema/seed_version.sql")
	schemaSet  = statement("schema/set_version.sql")

	LockSeed       = statement("lock/seed.sql")
	LockLook       = statement("lock/look.sql")
	LockWinVacant  = statement("lock/win_vacant.sql")
	LockWinOwn     = statement("lock/win_own.sql")
	LockWinExpired = statement("lock/win_expired.sql")
	LockWinOverdue = statement("lock/win_overdue.sql")
	LockWinWitness = statement("lock/win_witness.sql")
	LockRenew      = statement("lock/renew.sql")
	LockRepark     = statement("lock/repark.sql")
	LockResign     = statement("lock/resign.sql")
	LockTake       = statement("lock/take.sql")
	LockAwait      = statement("lock/await.sql")
	LockUsed       = statement("lock/used.sql")
	LockRelease    = statement("lock/release.sql")
	LockBinlog     = statement("lock/binlog.sql")

	StateSeed   = statement("state/seed.sql")
	StateRead   = statement("state/read.sql")
	StateOwner  = statement("state/owner.sql")
	StateWrite  = statement("state/write.sql")
	StateReseal = statement("state/reseal.sql")
	StateSeal   = statement("state/seal.sql")

	HistoryRecord = statement("history/record.sql")
	HistoryList   = statement("history/list.sql")
)

// statement reads one file without its comment lines: the driver counts question
// marks in comments as parameters. A missing file is a broken build and panics at
// start, in every test.
func statement(path string) string {
	text, err := files.ReadFile(path)
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

package sql

import (
	"embed"
	"strings"
)

// files holds the schema and the statements, one in each file. Each file begins
// with the reason for every predicate in its WHERE clause. The number of a
// schema file is the version that the schema has after it, and the order of
// application.
//
//go:embed schema/*.sql lock/*.sql state/*.sql history/*.sql version/*.sql row/*.sql fence/*.sql shop/*.sql lab/*.sql
var files embed.FS

// The statements of the election and of the fenced writes. Their comments are
// removed before they are sent.
var (
	schemaRead = statement("schema/read_version.sql")
	schemaSeed = statement("schema/seed_version.sql")
	schemaSet  = statement("schema/set_version.sql")

	schemaNarrow = statement("schema/narrow.sql")

	LockSeed       = statement("lock/seed.sql")
	LockLook       = statement("lock/look.sql")
	LockWinVacant  = statement("lock/win_vacant.sql")
	LockWinOwn     = statement("lock/win_own.sql")
	LockWinExpired = statement("lock/win_expired.sql")
	LockWinOverdue = statement("lock/win_overdue.sql")
	LockWinWitness = statement("lock/win_witness.sql")
	LockRenew      = statement("lock/renew.sql")
	LockRepark     = statement("lock/reacquire.sql")
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

// The statements of the original's election, of the other articles, and of the
// fence.
var (
	SofaLook    = statement("lock/sofa_look.sql")
	SofaInsert  = statement("lock/sofa_insert.sql")
	SofaFirst   = statement("lock/sofa_first.sql")
	SofaWin     = statement("lock/sofa_win.sql")
	SofaBeat    = statement("lock/sofa_beat.sql")
	SofaRefresh = statement("lock/sofa_refresh.sql")

	VersionTable      = statement("version/table.sql")
	VersionTimes      = statement("version/times.sql")
	VersionSeed       = statement("version/seed.sql")
	VersionLook       = statement("version/look.sql")
	VersionWin        = statement("version/win.sql")
	VersionWinExpired = statement("version/win_expired.sql")
	VersionRenew      = statement("version/renew.sql")
	VersionResign     = statement("version/resign.sql")

	ArticleVersionTable = statement("version/article_table.sql")
	ArticleVersionSeed  = statement("version/article_seed.sql")
	ArticleVersionLook  = statement("version/article_look.sql")
	ArticleVersionElect = statement("version/article_elect.sql")
	ArticleVersionTick  = statement("version/article_tick.sql")

	RowTable        = statement("row/table.sql")
	RowTimes        = statement("row/times.sql")
	RowAcquire      = statement("row/acquire.sql")
	RowLook         = statement("row/look.sql")
	RowRefresh      = statement("row/refresh.sql")
	RowRemove       = statement("row/remove.sql")
	RowClean        = statement("row/clean.sql")
	RowCleanOverdue = statement("row/clean_overdue.sql")

	ArticleRowTable   = statement("row/article_table.sql")
	ArticleRowAcquire = statement("row/article_acquire.sql")
	ArticleRowFind    = statement("row/article_find.sql")
	ArticleRowRefresh = statement("row/article_refresh.sql")
	ArticleRowClean   = statement("row/article_clean.sql")
	ArticleRowRelease = statement("row/article_release.sql")

	ArticleDataTable   = statement("row/article_data_table.sql")
	ArticleDataPut     = statement("row/article_data_put.sql")
	ArticleDataFind    = statement("row/article_data_find.sql")
	ArticleDataList    = statement("row/article_data_list.sql")
	ArticleDataRefresh = statement("row/article_data_refresh.sql")
	ArticleDataClean   = statement("row/article_data_clean.sql")
	ArticleDataDelete  = statement("row/article_data_delete.sql")

	FenceTable = statement("fence/table.sql")
	FenceCheck = statement("fence/check.sql")
)

// statement returns the content of a file without its comment lines, because
// the driver would count question marks in comments as parameters. It panics if
// the file does not exist, which every test would show.
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

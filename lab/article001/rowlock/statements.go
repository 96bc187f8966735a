package rowlock

import (
	"embed"

	conclavesql "conclave/sql"
)

// files holds the statements, one in each file, under the rule of package sql.
//
//go:embed sql/*.sql
var files embed.FS

var (
	tableSQL              = conclavesql.Statement(files, "sql/table.sql")
	acquireSQL            = conclavesql.Statement(files, "sql/acquire.sql")
	lookSQL               = conclavesql.Statement(files, "sql/look.sql")
	refreshSQL            = conclavesql.Statement(files, "sql/refresh.sql")
	removeSQL             = conclavesql.Statement(files, "sql/remove.sql")
	cleanSQL              = conclavesql.Statement(files, "sql/clean.sql")
	cleanOverdueSQL       = conclavesql.Statement(files, "sql/clean_overdue.sql")
	articleTableSQL       = conclavesql.Statement(files, "sql/article_table.sql")
	articleAcquireSQL     = conclavesql.Statement(files, "sql/article_acquire.sql")
	articleFindSQL        = conclavesql.Statement(files, "sql/article_find.sql")
	articleRefreshSQL     = conclavesql.Statement(files, "sql/article_refresh.sql")
	articleCleanSQL       = conclavesql.Statement(files, "sql/article_clean.sql")
	articleReleaseSQL     = conclavesql.Statement(files, "sql/article_release.sql")
	articleDataTableSQL   = conclavesql.Statement(files, "sql/article_data_table.sql")
	articleDataPutSQL     = conclavesql.Statement(files, "sql/article_data_put.sql")
	articleDataFindSQL    = conclavesql.Statement(files, "sql/article_data_find.sql")
	articleDataListSQL    = conclavesql.Statement(files, "sql/article_data_list.sql")
	articleDataRefreshSQL = conclavesql.Statement(files, "sql/article_data_refresh.sql")
	articleDataCleanSQL   = conclavesql.Statement(files, "sql/article_data_clean.sql")
)

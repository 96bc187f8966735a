package versioncas

import (
	"embed"

	conclavesql "conclave/sql"
)

// files holds the statements, one in each file, under the rule of package sql.
//
//go:embed sql/*.sql
var files embed.FS

var (
	tableSQL        = conclavesql.Statement(files, "sql/table.sql")
	seedSQL         = conclavesql.Statement(files, "sql/seed.sql")
	lookSQL         = conclavesql.Statement(files, "sql/look.sql")
	winSQL          = conclavesql.Statement(files, "sql/win.sql")
	winExpiredSQL   = conclavesql.Statement(files, "sql/win_expired.sql")
	renewSQL        = conclavesql.Statement(files, "sql/renew.sql")
	resignSQL       = conclavesql.Statement(files, "sql/resign.sql")
	articleTableSQL = conclavesql.Statement(files, "sql/article_table.sql")
	articleSeedSQL  = conclavesql.Statement(files, "sql/article_seed.sql")
	articleLookSQL  = conclavesql.Statement(files, "sql/article_look.sql")
	articleElectSQL = conclavesql.Statement(files, "sql/article_elect.sql")
	articleTickSQL  = conclavesql.Statement(files, "sql/article_tick.sql")
)

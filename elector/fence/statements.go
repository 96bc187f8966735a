package fence

import (
	"embed"

	conclavesql "conclave/sql"
)

// files holds the statements, one in each file, under the rule of package sql.
//
//go:embed sql/*.sql
var files embed.FS

var (
	tableSQL = conclavesql.Statement(files, "sql/table.sql")
	checkSQL = conclavesql.Statement(files, "sql/check.sql")
)

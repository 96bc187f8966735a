package sofaloop

import (
	"embed"

	conclavesql "conclave/sql"
)

// files holds the statements that package sql does not have, one in each file,
// under its rule.
//
//go:embed sql/*.sql
var files embed.FS

var (
	querySQL  = conclavesql.Statement(files, "sql/query.sql")
	unseedSQL = conclavesql.Statement(files, "sql/unseed.sql")
)

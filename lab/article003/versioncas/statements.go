package versioncas

import (
	"embed"

	conclavesql "conclave/sql"
)

// files holds the statements, one in each file, under the rule of package sql.
//
//go:embed sql/*.sql
var files embed.FS

// statement returns the statement in a file of the folder sql. It panics if there is no
// such file.
func statement(name string) string { return conclavesql.Statement(files, "sql/"+name+".sql") }

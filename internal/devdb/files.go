package devdb

import (
	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/mysql"
)

// Statements that read or write files would do so as the server's user, for any
// client that reaches the port. They are refused where the engine executes them,
// after it has parsed them, so that no spelling passes: SELECT .. INTO OUTFILE or
// DUMPFILE and LOAD DATA as nodes of a plan, and LOAD_FILE as a function.

// refuseFiles makes the engine refuse every plan that reads or writes a file.
func refuseFiles(engine *sqle.Engine) {
	engine.Analyzer.ExecBuilder = withoutFiles{engine.Analyzer.ExecBuilder}
}

// withoutFiles is the engine's builder of executable plans, also of those of
// subqueries and of prepared statements.
type withoutFiles struct{ sql.NodeExecBuilder }

// Build refuses a plan with a node that reads or writes a file.
func (b withoutFiles) Build(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	var err error
	transform.Inspect(n, func(n sql.Node) bool {
		switch n := n.(type) {
		case *plan.LoadData:
			err = errFiles()
		case *plan.Into:
			if n.Outfile != "" || n.Dumpfile != "" {
				err = errFiles()
			}
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return b.NodeExecBuilder.Build(ctx, n, row)
}

// errFiles returns the error of a statement that reads or writes a file.
func errFiles() error {
	return mysql.NewSQLError(mysql.ERNotSupportedYet, "42000", "This embedded server does not support files in statements")
}

// noLoadFile is LOAD_FILE.
func noLoadFile(*sql.Context, []any) (any, error) { return nil, errFiles() }

package oversell

import (
	"embed"

	conclavesql "conclave/sql"
)

// files holds the statements, one in each file, under the rule of package sql.
//
//go:embed sql/*.sql
var files embed.FS

var (
	stockTableSQL  = conclavesql.Statement(files, "sql/stock_table.sql")
	orderTableSQL  = conclavesql.Statement(files, "sql/order_table.sql")
	openSQL        = conclavesql.Statement(files, "sql/open.sql")
	readSQL        = conclavesql.Statement(files, "sql/read.sql")
	writeSQL       = conclavesql.Statement(files, "sql/write.sql")
	takeSQL        = conclavesql.Statement(files, "sql/take.sql")
	claimSQL       = conclavesql.Statement(files, "sql/claim.sql")
	writeTokenSQL  = conclavesql.Statement(files, "sql/write_token.sql")
	orderSQL       = conclavesql.Statement(files, "sql/order.sql")
	ordersSQL      = conclavesql.Statement(files, "sql/orders.sql")
	closeStockSQL  = conclavesql.Statement(files, "sql/close_stock.sql")
	closeOrdersSQL = conclavesql.Statement(files, "sql/close_orders.sql")
)

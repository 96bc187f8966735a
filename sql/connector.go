package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
)

// connector opens a connection and then tries settings on it that some servers
// do not know or do not let a session change: a refusal is taken as "not here".
// (In the DSN a refused setting would refuse the connection.)
type connector struct {
	driver.Connector
	settings []string
}

var _ driver.Connector = (*connector)(nil)

// Connect opens one connection; ctx bounds the settings, too.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, setting := range c.settings {
		_, err := conn.(driver.ExecerContext).ExecContext(ctx, setting, nil)
		var refused *mysql.MySQLError
		if err != nil && !errors.As(err, &refused) {
			conn.Close()
			return nil, fmt.Errorf("%s: %w", setting, err)
		}
	}
	return conn, nil
}

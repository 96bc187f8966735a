package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
)

// connector opens connections and applies settings that some servers do not
// know or do not allow a session to change; their refusal is ignored. (In the
// DSN, a refused setting would make the connection fail.)
type connector struct {
	driver.Connector
	settings []string
}

var _ driver.Connector = (*connector)(nil)

// Connect opens one connection. ctx also bounds the settings.
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

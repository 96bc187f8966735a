package sql_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/internal/devdb"
	conclavesql "conclave/sql"
)

// A statement that has been answered does not wait for the next one on its connection.
func TestExec_WaitsForNoOtherStatement(t *testing.T) {
	executed, answered := make(chan struct{}), make(chan struct{})
	dsn := embedded(t, devdb.Config{Around: func(_ net.Addr, query string) (func(uint64, error), error) {
		if strings.Contains(query, "@one") {
			executed <- struct{}{}
		} else if strings.Contains(query, "@other") {
			<-answered
		}
		return nil, nil
	}})
	db := openWith(t, dsn, conclavesql.Options{Deadline: 10 * time.Second, MaxConns: 1})
	exec := func(statement string) {
		_, err := db.Exec(context.Background(), statement)
		assert.NoError(t, err)
	}
	for range 5000 {
		go func() {
			exec("SET @one = 1")
			answered <- struct{}{}
		}()
		<-executed
		exec("SET @other = 1")
	}
}

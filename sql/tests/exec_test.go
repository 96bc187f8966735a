package sql_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	conclavesql "conclave/sql"
)

// A statement that has been answered does not wait for the next one on its connection. It is a
// race: without the mend three of four runs fail.
func TestExec_WaitsForNoOtherStatement(t *testing.T) {
	executed, answered := make(chan struct{}), make(chan error, 1)
	dsn := embedded(t, devdb.Config{Around: func(_ net.Addr, query string) (func(uint64, error), error) {
		if strings.Contains(query, "@one") {
			executed <- struct{}{}
		} else if strings.Contains(query, "@other") {
			return nil, <-answered
		}
		return nil, nil
	}})
	db := openWith(t, dsn, conclavesql.Options{Deadline: 5 * time.Second, MaxConns: 1})
	for range 10_000 {
		go func() {
			_, err := db.Exec(t.Context(), "SET @one = 1")
			answered <- err
		}()
		select {
		case <-executed:
		case err := <-answered:
			require.NoError(t, err)
		}
		_, err := db.Exec(t.Context(), "SET @other = 1") // waits for the connection
		require.NoError(t, err)
	}
}

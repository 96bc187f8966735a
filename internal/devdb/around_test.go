package devdb_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/internal/devdb"
)

// Around blocks a statement until its client has gone. The statement is
// executed nevertheless, and reported before any other statement is executed.
func TestAround_StatementIsExecutedWithoutItsClient(t *testing.T) {
	arrived, goOn, reported := make(chan string, 1), make(chan bool), make(chan uint64, 1)
	var once sync.Once
	s, _ := serve(t, devdb.Config{Around: func(from net.Addr, query string) (func(uint64, error), error) {
		if !strings.HasPrefix(query, "UPDATE") {
			return nil, nil
		}
		once.Do(func() { arrived <- from.String(); <-goOn })
		return func(changed uint64, err error) {
			assert.NoError(t, err)
			reported <- changed
		}, nil
	}})
	db := open(t, s)
	run(t, db, "CREATE TABLE shelf (id int PRIMARY KEY, n int)")
	run(t, db, "INSERT INTO shelf VALUES (1, 1)")
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := db.ExecContext(ctx, "UPDATE shelf SET n = 2"); left <- err }()
	assert.NotEmpty(t, <-arrived)
	leave()
	assert.ErrorIs(t, <-left, context.Canceled)
	assert.Equal(t, 1, one[int](t, db, "SELECT n FROM shelf"), "other statements are not blocked")
	close(goOn)
	assert.Equal(t, uint64(1), <-reported)
	assert.Eventually(t, func() bool { return one[int](t, db, "SELECT n FROM shelf") == 2 }, 30*time.Second, time.Millisecond)
}

// An error of Around is the answer, and nothing is executed.
func TestAround_RefusedStatementIsNotExecuted(t *testing.T) {
	s, _ := serve(t, devdb.Config{Around: func(_ net.Addr, query string) (func(uint64, error), error) {
		if strings.HasPrefix(query, "INSERT") {
			return nil, devdb.Refusal(1366, "refused")
		}
		return nil, nil
	}})
	db := open(t, s)
	run(t, db, "CREATE TABLE shelf (id int PRIMARY KEY, n int)")
	_, err := db.ExecContext(t.Context(), "INSERT INTO shelf VALUES (1, 1)")
	assert.ErrorContains(t, err, "Error 1366 (HY000): refused")
	assert.Equal(t, 0, one[int](t, db, "SELECT COUNT(*) FROM shelf"))
}

func TestRewrite_AnotherTextIsExecuted(t *testing.T) {
	s, _ := serve(t, devdb.Config{Rewrite: func(query string) string { return strings.TrimSuffix(query, " WHERE n = 7") }})
	db := open(t, s)
	run(t, db, "CREATE TABLE shelf (id int PRIMARY KEY, n int)")
	run(t, db, "INSERT INTO shelf VALUES (1, 1)")
	run(t, db, "UPDATE shelf SET n = 2 WHERE n = 7")
	assert.Equal(t, 2, one[int](t, db, "SELECT n FROM shelf"))
}

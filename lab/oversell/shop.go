package oversell

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	conclavesql "conclave/sql"
)

// shop is the product that the locks protect: a stock and its orders, in MySQL.
// It does not depend on the locks, and has its own connections.
type shop struct {
	db    *stdsql.DB
	goods string // the item's name in the tables
}

// dbTimeout is the time-out of a statement. Statements of hundreds of buyers
// queue at a small server.
const dbTimeout = 30 * time.Second

// openDB opens one worker's pool.
func openDB(dsn string) (*stdsql.DB, error) {
	db, err := conclavesql.OpenPool(dsn, func(config *mysql.Config) {
		config.InterpolateParams = true // one round trip for each statement
		config.ClientFoundRows = true   // a row is written although it had that value already, as with JDBC
	})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return db, nil
}

// exec runs one statement and returns how many rows it matched.
func exec(ctx context.Context, db *stdsql.DB, statement string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	result, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// number returns the number that a query selects.
func (s shop) number(ctx context.Context, statement string) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	err = s.db.QueryRowContext(ctx, statement, s.goods).Scan(&n)
	return n, err
}

// open creates missing tables and writes the stock.
func (s shop) open(ctx context.Context, items int) error {
	for _, table := range []string{stockTableSQL, orderTableSQL} {
		if _, err := exec(ctx, s.db, table); err != nil {
			return fmt.Errorf("create the shop's tables: %w", err)
		}
	}
	if _, err := exec(ctx, s.db, openSQL, s.goods, items); err != nil {
		return fmt.Errorf("open the shop: %w", err)
	}
	return nil
}

// close deletes the run's rows. The tables stay.
func (s shop) close(ctx context.Context) error {
	_, first := exec(ctx, s.db, closeStockSQL, s.goods)
	_, second := exec(ctx, s.db, closeOrdersSQL, s.goods)
	if err := errors.Join(first, second); err != nil {
		return fmt.Errorf("close the shop: %w", err)
	}
	return nil
}

// read returns the stock.
func (s shop) read(ctx context.Context) (int, error) {
	n, err := s.number(ctx, readSQL)
	if err != nil {
		return 0, fmt.Errorf("read the stock: %w", err)
	}
	return n, nil
}

// written reports whether a write with this result changed the stock.
func written(n int64, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("write the stock: %w", err)
	}
	return n > 0, nil
}

// write sets the stock without a guard: it always succeeds.
func (s shop) write(ctx context.Context, stock int) (bool, error) {
	_, err := written(exec(ctx, s.db, writeSQL, stock, s.goods))
	return err == nil, err
}

// take takes one item in one statement, which needs no lock.
func (s shop) take(ctx context.Context, _ int) (bool, error) {
	return written(exec(ctx, s.db, takeSQL, s.goods))
}

// claim writes a lock's token to the stock's row. It must come before the read.
func (s shop) claim(ctx context.Context, token uint64) error {
	if _, err := exec(ctx, s.db, claimSQL, token, s.goods, token); err != nil {
		return fmt.Errorf("claim the stock: %w", err)
	}
	return nil
}

// writeToken sets the stock if the row has this token.
func (s shop) writeToken(ctx context.Context, stock int, token uint64) (bool, error) {
	return written(exec(ctx, s.db, writeTokenSQL, stock, s.goods, token))
}

// order writes a buyer's order.
func (s shop) order(ctx context.Context, buyer int) error {
	if _, err := exec(ctx, s.db, orderSQL, s.goods, buyer); err != nil {
		return fmt.Errorf("write the order: %w", err)
	}
	return nil
}

// books returns the stock and the number of orders.
func (s shop) books(ctx context.Context) (left, orders int, err error) {
	if left, err = s.read(ctx); err != nil {
		return 0, 0, err
	}
	if orders, err = s.number(ctx, ordersSQL); err != nil {
		return 0, 0, fmt.Errorf("count the orders: %w", err)
	}
	return left, orders, nil
}

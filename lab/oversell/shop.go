package oversell

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	conclavesql "conclave/sql"
)

//go:embed sql/*.sql
var files embed.FS

// statement returns a statement in the folder sql by its name.
var statement = conclavesql.Statements(files)

// shop is the product that the locks protect: a stock and its orders, in MySQL.
// It does not depend on the locks, and has its own connections.
type shop struct {
	db    *conclavesql.DB
	goods string // the item's name in the tables
}

// dbTimeout is the time-out of a statement. Statements of hundreds of buyers
// queue at a small server.
const dbTimeout = 30 * time.Second

// open creates missing tables and writes the stock.
func (s shop) open(ctx context.Context, items int) error {
	if err := s.db.Create(ctx, statement("stock_table"), statement("order_table")); err != nil {
		return fmt.Errorf("create the shop's tables: %w", err)
	}
	_, err := s.exec(ctx, "open the shop", statement("open"), s.goods, items)
	return err
}

// close deletes the run's rows. The tables stay.
func (s shop) close(ctx context.Context) error {
	_, first := s.exec(ctx, "close the shop", statement("close_stock"), s.goods)
	_, second := s.exec(ctx, "close the shop", statement("close_orders"), s.goods)
	return errors.Join(first, second)
}

// exec runs a statement, and reports whether it changed a row.
func (s shop) exec(ctx context.Context, what, statement string, args ...any) (bool, error) {
	n, err := s.db.Exec(ctx, statement, args...)
	if err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	return n > 0, nil
}

// read returns the stock.
func (s shop) read(ctx context.Context) (n int, err error) {
	if err = s.db.QueryRow(ctx, statement("read"), []any{s.goods}, &n); err != nil {
		return 0, fmt.Errorf("read the stock: %w", err)
	}
	return n, nil
}

// write sets the stock without a guard: it always succeeds, also if the row had that
// value already.
func (s shop) write(ctx context.Context, stock int) (bool, error) {
	_, err := s.exec(ctx, "write the stock", statement("write"), stock, s.goods)
	return err == nil, err
}

// take takes one item in one statement, which needs no lock.
func (s shop) take(ctx context.Context, _ int) (bool, error) {
	return s.exec(ctx, "write the stock", statement("take"), s.goods)
}

// claim writes a lock's token to the stock's row. It must come before the read.
func (s shop) claim(ctx context.Context, token uint64) error {
	_, err := s.exec(ctx, "claim the stock", statement("claim"), token, s.goods, token)
	return err
}

// writeToken sets the stock, to another value, if the row has this token.
func (s shop) writeToken(ctx context.Context, stock int, token uint64) (bool, error) {
	return s.exec(ctx, "write the stock", statement("write_token"), stock, s.goods, token)
}

// order writes a buyer's order.
func (s shop) order(ctx context.Context, buyer int) error {
	_, err := s.exec(ctx, "write the order", statement("order"), s.goods, buyer)
	return err
}

// books returns the stock and the number of orders.
func (s shop) books(ctx context.Context) (left, orders int, err error) {
	if left, err = s.read(ctx); err != nil {
		return 0, 0, err
	}
	if err = s.db.QueryRow(ctx, statement("orders"), []any{s.goods}, &orders); err != nil {
		return 0, 0, fmt.Errorf("count the orders: %w", err)
	}
	return left, orders, nil
}

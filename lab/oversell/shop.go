package oversell

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"conclave/elector/fence"
	conclavesql "conclave/sql"
)

// shop is the product: a stock and its orders, in MySQL. It knows nothing of locks,
// and comes to its database by its own way, as a product does.
type shop struct {
	db    *stdsql.DB
	goods string // which article
}

// patience is how long one statement may take: with some hundred buyers at one small
// server they queue.
const patience = 30 * time.Second

// openDB is one worker's own pool.
func openDB(dsn string) (*stdsql.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, conclavesql.ErrBadDSN // its own error may quote the password
	}
	config.InterpolateParams = true // one round trip for each statement
	config.Logger = quiet{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, conclavesql.ErrBadDSN
	}
	db := stdsql.OpenDB(connector)
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return db, nil
}

// quiet drops what the driver would print: its errors are returned, too.
type quiet struct{}

func (quiet) Print(...any) {}

// exec runs one statement and returns how many rows it changed.
func (s shop) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result, err := s.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// number reads one number.
func (s shop) number(ctx context.Context, statement string) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = s.db.QueryRowContext(ctx, statement, s.goods).Scan(&n)
	return n, err
}

// open makes the tables where they are missing, and puts the stock in.
func (s shop) open(ctx context.Context, items int) error {
	for _, table := range []string{conclavesql.ShopStockTable, conclavesql.ShopOrderTable} {
		if _, err := s.exec(ctx, table); err != nil {
			return fmt.Errorf("make the shop's tables: %w", err)
		}
	}
	if _, err := s.exec(ctx, conclavesql.ShopOpen, s.goods, items); err != nil {
		return fmt.Errorf("open the shop: %w", err)
	}
	return nil
}

// close takes the run's rows away; the tables stay.
func (s shop) close(ctx context.Context) error {
	_, first := s.exec(ctx, conclavesql.ShopCloseStock, s.goods)
	_, second := s.exec(ctx, conclavesql.ShopCloseOrders, s.goods)
	if err := errors.Join(first, second); err != nil {
		return fmt.Errorf("close the shop: %w", err)
	}
	return nil
}

// read is a buyer's look at the stock.
func (s shop) read(ctx context.Context) (int, error) {
	n, err := s.number(ctx, conclavesql.ShopRead)
	if err != nil {
		return 0, fmt.Errorf("read the stock: %w", err)
	}
	return n, nil
}

// written turns a write's result into: has the buyer one?
func written(n int64, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("write the stock: %w", err)
	}
	return n > 0, nil
}

// write puts the stock to what the buyer thinks it is: he has one, whatever happened.
func (s shop) write(ctx context.Context, stock int) (bool, error) {
	_, err := written(s.exec(ctx, conclavesql.ShopWrite, stock, s.goods))
	return err == nil, err
}

// take is the one statement that needs no lock.
func (s shop) take(ctx context.Context, _ int) (bool, error) {
	return written(s.exec(ctx, conclavesql.ShopTake, s.goods))
}

// claim puts a lock's token into the row, before it is read.
func (s shop) claim(ctx context.Context, token uint64) error {
	if _, err := s.exec(ctx, conclavesql.ShopClaim, token, s.goods, token); err != nil {
		return fmt.Errorf("claim the stock: %w", err)
	}
	return nil
}

// writeToken is write, for the holder whose token the row names.
func (s shop) writeToken(ctx context.Context, stock int, token uint64) (bool, error) {
	return written(s.exec(ctx, conclavesql.ShopWriteToken, stock, s.goods, token))
}

// writeFenced is write, under a term. It returns false if the term has ended.
func (s shop) writeFenced(ctx context.Context, stock int, token fence.Token) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n, err := fence.Exec(ctx, s.db, token, conclavesql.ShopWriteFenced, stock, s.goods)
	if errors.Is(err, fence.ErrTermEnded) {
		return false, nil
	}
	return written(n, err)
}

// order writes down who has one.
func (s shop) order(ctx context.Context, buyer int) error {
	if _, err := s.exec(ctx, conclavesql.ShopOrder, s.goods, buyer); err != nil {
		return fmt.Errorf("write the order: %w", err)
	}
	return nil
}

// books are what is left, and how many orders there are.
func (s shop) books(ctx context.Context) (left, orders int, err error) {
	if left, err = s.read(ctx); err != nil {
		return 0, 0, err
	}
	if orders, err = s.number(ctx, conclavesql.ShopOrders); err != nil {
		return 0, 0, fmt.Errorf("count the orders: %w", err)
	}
	return left, orders, nil
}

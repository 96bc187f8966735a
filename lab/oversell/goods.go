package oversell

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
)

// goods is one row of the article's table goods_stock (GoodsStock in article
// 004), which a Store sells.
type goods struct {
	db *stdsql.DB
	no int   // goods_no
	id int64 // of its row
}

var (
	errNoGoods   = errors.New("no such row")
	errManyGoods = errors.New("more than one row")
)

// open creates the table if it is missing and writes the row. An existing row
// with this number belongs to another run or program, and is an error.
func (g *goods) open(ctx context.Context, items int) error {
	if _, err := exec(ctx, g.db, goodsTableSQL); err != nil {
		return fmt.Errorf("create the table goods_stock: %w", err)
	}
	switch _, err := g.read(ctx); {
	case err == nil || errors.Is(err, errManyGoods):
		return fmt.Errorf("goods_stock has a row with goods_no %d already: take another number, or remove it (DELETE FROM goods_stock WHERE goods_no = %d)", g.no, g.no)
	case !errors.Is(err, errNoGoods):
		return err
	}
	return g.insert(ctx, items)
}

// insert writes the row. Nothing in the table makes its number unique: if another
// program has written one at the same moment, insert deletes its own and fails. The
// end of ctx has no effect, because it would leave a row whose id is not known.
func (g *goods) insert(ctx context.Context, items int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dbTimeout)
	defer cancel()
	result, err := g.db.ExecContext(ctx, goodsOpenSQL, g.no, items)
	if err == nil {
		g.id, err = result.LastInsertId()
	}
	if err != nil {
		return fmt.Errorf("write the stock of goods %d: %w", g.no, err)
	}
	if _, err := g.read(ctx); err != nil {
		return errors.Join(fmt.Errorf("the row just written: %w", err), g.close(ctx))
	}
	return nil
}

// close deletes the row. The table stays.
func (g *goods) close(ctx context.Context) error {
	if _, err := exec(ctx, g.db, goodsCloseSQL, g.id); err != nil {
		return fmt.Errorf("remove goods %d: %w", g.no, err)
	}
	return nil
}

// read returns the stock (getOne in article 004). It returns errNoGoods if
// there is no row.
func (g *goods) read(ctx context.Context) (stock int, err error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	rows, err := g.db.QueryContext(ctx, goodsFindSQL, g.no)
	if err != nil {
		return 0, fmt.Errorf("read goods %d: %w", g.no, err)
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var known stdsql.NullInt64 // the column may be NULL
		if err := rows.Scan(&known); err != nil {
			return 0, fmt.Errorf("read goods %d: %w", g.no, err)
		}
		stock = int(known.Int64)
	}
	switch {
	case rows.Err() != nil:
		err = rows.Err()
	case n == 0:
		err = errNoGoods
	case n > 1:
		err = errManyGoods
	}
	if err != nil {
		return 0, fmt.Errorf("read goods %d: %w", g.no, err)
	}
	return stock, nil
}

// write sets the stock, whatever it is meanwhile (updateById in article 004). It
// returns false if the row was removed.
func (g *goods) write(ctx context.Context, stock int) (bool, error) {
	return written(exec(ctx, g.db, goodsUpdateSQL, stock, g.id))
}

// take takes one item in one statement, which needs no lock.
func (g *goods) take(ctx context.Context, _ int) (bool, error) {
	return written(exec(ctx, g.db, goodsTakeSQL, g.id))
}

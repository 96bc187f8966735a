package oversell

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

// Report is the result of a run.
type Report struct {
	At       time.Time `json:"at"`
	TookMs   int64     `json:"tookMs"`
	Buyers   int       `json:"buyers"`
	Items    int       `json:"items"`
	Workers  int       `json:"workers"`
	ThinkMs  int64     `json:"thinkMs"`
	Database string    `json:"database"`
	Tree     string    `json:"tree"` // the ZooKeeper that the locks of article 004 used
	Ways     []Row     `json:"ways"`
}

// Row is one way's result.
type Row struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Article string `json:"article,omitempty"`
	Claim   Claim  `json:"claim"`

	Buyers   int     `json:"buyers"`
	Sold     int     `json:"sold"`     // buyers whose purchase succeeded, as far as they know
	Orders   int     `json:"orders"`   // in the database
	Left     int     `json:"left"`     // the stock in the database
	Oversold int     `json:"oversold"` // orders without an item
	Lost     int     `json:"lost"`     // orders that are not deducted from the stock: lost updates
	Refused  int     `json:"refused"`  // purchases that the check before the write, or the fence, refused
	TookMs   int64   `json:"tookMs"`
	WakeUps  *uint64 `json:"wakeUps,omitempty"`  // of waiters, by events of the lock
	Requests *uint64 `json:"requests,omitempty"` // of the lock to its store

	Ok      bool    `json:"ok"` // the outcome is the expected one
	Verdict string  `json:"verdict"`
	Note    string  `json:"note,omitempty"`
	Points  []Point `json:"points"`
}

// Point is the state after one purchase: the stock as this buyer wrote it, and
// the orders so far.
type Point struct {
	AtMs   int64 `json:"atMs"`
	Stock  int   `json:"stock"`
	Orders int   `json:"orders"`
}

// check compares the outcome with the expected one. Buyers, Sold, Orders and
// Left must be set.
func (r *Row) check(way Way, items int) {
	r.Name, r.About, r.Article, r.Claim = way.Name, way.About, way.Article, way.Claim
	r.Oversold = max(0, r.Orders-items)
	r.Lost = r.Orders - (items - r.Left)
	wrong := ""
	switch {
	case r.Oversold > 0:
		wrong = fmt.Sprintf("%d oversold", r.Oversold)
	case r.Lost != 0:
		wrong = fmt.Sprintf("%d orders are not deducted from the stock", r.Lost)
	case r.Sold != r.Orders:
		wrong = fmt.Sprintf("%d were sold, %d orders written", r.Sold, r.Orders)
	case r.Left < 0:
		wrong = fmt.Sprintf("%d left", r.Left)
	}
	switch way.Claim {
	case Holds:
		r.Ok, r.Verdict = wrong == "", "held"
		if !r.Ok {
			r.Verdict = "BROKEN: " + wrong
		}
	case Oversells:
		r.Ok, r.Verdict = r.Oversold > 0, "oversold, as arranged"
		if !r.Ok {
			r.Verdict = "BROKEN: nothing was oversold"
		}
	default:
		r.Ok, r.Verdict = true, "oversold, as expected"
		if wrong == "" {
			r.Verdict = "nothing was oversold, by chance"
		} else if r.Oversold == 0 {
			r.Verdict = "lost updates, as expected"
		}
	}
}

// Broken returns the ways whose outcome is not the expected one.
func (r Report) Broken() (list []Row) {
	for _, w := range r.Ways {
		if !w.Ok {
			list = append(list, w)
		}
	}
	return list
}

// maxPoints is how many points of a way are kept.
const maxPoints = 150

// thin returns at most maxPoints of the points, with the first and the last.
func thin(points []Point) []Point {
	if len(points) <= maxPoints {
		return append([]Point{}, points...)
	}
	list := make([]Point, 0, maxPoints)
	for i := range maxPoints {
		list = append(list, points[i*(len(points)-1)/(maxPoints-1)])
	}
	return list
}

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"plot":  newPlot,
	"count": count,
	"time":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
}).Parse(page))

// WriteHTML writes the report as one HTML page without external resources.
func (r Report) WriteHTML(w io.Writer) error { return pageTemplate.Execute(w, r) }

// count formats a number that may be unknown.
func count(n *uint64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// plot is the diagram of a way: the orders, the stock, and a line at the number
// of items.
type plot struct {
	W, H          int
	Orders, Stock string // polylines
	Items         float64
	Top           int // the largest value
	LastsMs       int64
}

// newPlot returns the diagram of a way.
func newPlot(r Row, items int) plot {
	p := plot{W: 220, H: 70, Top: items, LastsMs: max(1, r.TookMs)}
	for _, at := range r.Points {
		p.Top = max(p.Top, at.Orders, at.Stock)
	}
	y := func(n int) float64 { return float64(p.H) * (1 - float64(max(n, 0))/float64(p.Top)) }
	p.Items = y(items)
	var orders, stock strings.Builder
	fmt.Fprintf(&orders, "0,%d", p.H)
	fmt.Fprintf(&stock, "0,%.1f", y(items))
	for _, at := range r.Points {
		x := float64(p.W) * float64(at.AtMs) / float64(p.LastsMs)
		fmt.Fprintf(&orders, " %.1f,%.1f", x, y(at.Orders))
		fmt.Fprintf(&stock, " %.1f,%.1f", x, y(at.Stock))
	}
	p.Orders, p.Stock = orders.String(), stock.String()
	return p
}

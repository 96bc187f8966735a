package oversell

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
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
	Way

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

	Ok      bool   `json:"ok"` // the outcome is the expected one
	Verdict string `json:"verdict"`
	Note    string `json:"note,omitempty"`
}

// check compares the outcome with the expected one. Buyers, Sold, Orders and
// Left must be set.
func (r *Row) check(way Way, items int) {
	r.Way = way
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

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
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

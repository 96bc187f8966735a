package bench

// originals are the figures of the Java original under the names of the figures
// that they are compared with, in the same units. The version is SOFARegistry
// 6.6.3: eight processes and MySQL on one machine with two cores. They were
// measured before this project began (2026-11-21) and are never measured by it;
// docs/figures.md has what is known of the run, and the steps to measure again.
var originals = map[string]string{
	"memory-each":                "540-950",
	"memory-all":                 "5,200", // without the database
	"sql-per-second":             "26.7",
	"log-lines-per-hour":         "hundreds of thousands",
	"publish-to-push":            "p50 1,900, p99 2,270",
	"publish-to-push-100":        "p50 1,971, p99 2,441",
	"updates-pushes":             "11 of 600",
	"registrations":              "1,294",
	"fan-out":                    "9,000-10,700",
	"fan-out-empty":              "19,307",
	"leader-killed-leaderless":   "20,500-21,300",
	"leader-killed-next-leader":  "20,500-21,300",
	"leader-killed-all-follow":   "51,000-52,000",
	"leader-stopped-leaderless":  "20,600-21,500",
	"leader-stopped-next-leader": "20,600-21,500",
	"leader-stopped-all-follow":  "51,000-52,000",
	"data-killed-served":         "22,000-24,000",
	"data-killed-worst":          "22,000-24,000",
	"data-drained-gap":           "a moment, for every slot",
	"session-killed-worst":       "3,900",
	"start-to-first-push":        "82,000-118,000",
}

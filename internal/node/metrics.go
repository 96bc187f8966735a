package node

import "github.com/prometheus/client_golang/prometheus"

// Metrics is what a node exports at /metrics. Most values are read when they
// are collected.
type Metrics struct{ registry *prometheus.Registry }

func newMetrics() *Metrics { return &Metrics{prometheus.NewRegistry()} }

// Add exports collectors that the role updates itself.
func (m *Metrics) Add(all ...prometheus.Collector) { m.registry.MustRegister(all...) }

// Gauge exports a value that is read when it is collected.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	m.LabelledGauge(name, help, nil, read)
}

// LabelledGauge exports one of several values with the same name.
func (m *Metrics) LabelledGauge(name, help string, labels prometheus.Labels, read func() float64) {
	m.Add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, read))
}

// Counter exports a count that is read when it is collected.
func (m *Metrics) Counter(name, help string, read func() uint64) {
	m.Add(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read()) }))
}

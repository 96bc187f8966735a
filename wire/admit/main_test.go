package admit_test

import (
	"testing"

	"go.uber.org/goleak"

	_ "conclave/internal/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

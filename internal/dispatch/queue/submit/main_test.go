package submit_test

import (
	"testing"

	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

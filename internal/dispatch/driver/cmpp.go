package driver

import (
	"lksms/internal/dispatch/driver/carrier"
	"lksms/internal/dispatch/driver/provider"
)

func newCMPP(config []byte, t provider.Tools) (Driver, error) {
	var c carrier.CMPPConfig
	if err := read(config, &c); err != nil {
		return nil, err
	}
	return carrier.NewCMPP(c, t)
}

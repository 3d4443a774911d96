package cmpp

import "time"

// Zone is the time zone of CMPP. China has one zone.
var Zone = time.FixedZone("Asia/Shanghai", 8*60*60)

// ValidTime returns a time in the format of SMPP 3.3, which Submit.ValidTime and Submit.AtTime have (7.4.3.1): twelve digits of the local time in China, a tenth of a
// second, and 32 quarters of an hour before UTC.
func ValidTime(t time.Time) string { return t.In(Zone).Format("060102150405") + "032+" }

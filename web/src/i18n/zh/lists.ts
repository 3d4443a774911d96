export default {
  file: {
    choose: '选择文件',
    drop: '或拖到这里：CSV 或 XLSX，最大 100 MiB',
    other: '换一个文件',
  },
  asking: '正在读取名单…',
  columns: '{n} 列',
  encoding: '文字编码 {name}',
  workbook: '电子表格',
  firstRows: '名单的前几行',
  row: '行',
  lossy: '数字不完整',
  lossyHint: '有的数字在表格中被缩短（例如 1.38E+10）或公式出错，原来的值已丢失：请把该列设为文本格式后重新保存。',
  extraHint: '有的行的值比列多：可能是含有逗号的文字没有加引号。',
  noRows: '名单中没有数据行。',
  moreColumns: '另有 {n} 列未显示。',
}

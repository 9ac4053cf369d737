// Encodings of tensors.
func.func @f(%x: tensor<?x4xf32>, %m: index, %n: index) -> tensor<?x4xf32> {
  %0 = iree_encoding.set_encoding %x encoding_dims{%m, %n} {kept} : tensor<?x4xf32> -> tensor<?x4xf32, #iree_encoding.testing<>>
  %1 = iree_encoding.unset_encoding %0 encoding_dims{%m, %n} : tensor<?x4xf32, #iree_encoding.testing<>> -> tensor<?x4xf32>{%m}
  %2 = iree_encoding.set_encoding %1 : tensor<?x4xf32> -> tensor<?x4xf32, #iree_encoding.testing<>>
  %3 = iree_encoding.unset_encoding %2 : tensor<?x4xf32, #iree_encoding.testing<>> -> tensor<?x4xf32>
  return %3 : tensor<?x4xf32>
}
